//! The memory budget, partitions and settings of a run of cases.

use super::random::Random;

/// Settings that select between execution strategies; all of them give the same rows.
const WAYS: &[(&str, &[&str])] = &[
    ("datafusion.optimizer.repartition_joins", &["true", "true", "false"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold", &["0", "1048576"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", &["0", "131072"]),
];

/// A memory budget, a number of partitions, and settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Memory budget in bytes.
    pub dram_bytes: u64,
    /// Number of partitions of the engine's queries.
    pub partitions: usize,
    /// Settings: name and value.
    settings: Vec<(&'static str, String)>,
}

impl Setup {
    /// Returns a random setup; batches may be tiny if the tables are small.
    pub fn random(random: &mut Random, small: bool) -> Self {
        let dram_bytes = *random.one(&[32_u64, 48, 64, 256]) << 20;
        let partitions = *random.one(&[1, 1, 2, 2, 3, 4, 8]);
        let batch = match small {
            true => *random.one(&[1, 2, 3, 7, 100, 1000, 8192]),
            false => *random.one(&[100, 1000, 8192]),
        };
        let mut settings = vec![("datafusion.execution.batch_size", batch.to_string())];
        settings.push(("datafusion.execution.target_partitions", partitions.to_string()));
        for (name, values) in WAYS {
            settings.push((name, (*random.one(values)).to_owned()));
        }
        Self { dram_bytes, partitions, settings }
    }

    /// Returns the settings as SET statements.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        self.settings.iter().map(|(name, value)| format!("SET {name} = {value}")).collect()
    }
}

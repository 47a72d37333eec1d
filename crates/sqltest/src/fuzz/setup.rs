//! The budget, partitions and settings that cases run with.

use super::random::Random;

/// Settings that choose between ways to run a plan; all of them give the same rows.
const WAYS: &[(&str, &[&str])] = &[
    ("datafusion.optimizer.repartition_joins", &["true", "true", "false"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold", &["0", "1048576"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", &["0", "131072"]),
];

/// A budget, partitions and settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Bytes of the budget.
    pub dram_bytes: u64,
    /// Partitions of the engine's queries.
    pub partitions: usize,
    /// Settings by name.
    settings: Vec<(&'static str, String)>,
}

impl Setup {
    /// A random one; over small tables, batches may be tiny.
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

    /// The settings as statements.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        self.settings.iter().map(|(name, value)| format!("SET {name} = {value}")).collect()
    }
}

//! A database writes only to its own store, never to another file, device or store.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{MIB, config, show};
use terrace_sql::{Engine, EngineConfig, SqlError};
use terrace_testkit::device::{LoopDevice, or_skip};
use terrace_tier::TierSpec;

const DRAM: u64 = 64 * MIB;
const TABLE: &str =
    "CREATE TABLE t WITH (encoding = 'plain') AS SELECT value AS a FROM generate_series(1, 300000)";
const SUM: &str = "SELECT count(*), sum(a) FROM t";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("tempdir"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens the database in the directory of this name, or a temporary one, with the tier, in
    /// which `~` stands for the path of this home.
    fn open(&self, data: Option<&str>, tier: Option<&str>) -> Result<Engine, SqlError> {
        let tiers = tier.map(|tier| tier.replace('~', &self.0.path().display().to_string()));
        let tiers = tiers.iter().map(|tier| tier.parse::<TierSpec>().expect("a tier")).collect();
        let data_dir = data.map(|data| self.path(data));
        Engine::open(&EngineConfig { tiers, data_dir, ..config(DRAM) })
    }

    fn refusal(&self, data: Option<&str>, tier: Option<&str>) -> String {
        match self.open(data, tier) {
            Ok(_) => panic!("{data:?} with {tier:?} must be refused"),
            Err(error) => error.to_string(),
        }
    }

    /// Opens a database, runs a text, closes the database, and returns the result.
    async fn show(&self, data: Option<&str>, tier: Option<&str>, text: &str) -> String {
        let engine = self.open(data, tier).expect("opens");
        let session = engine.session().expect("session");
        let shown = show(&session, text).await;
        drop(session);
        engine.close().expect("closes");
        shown
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let home = Home::new();
    for (name, bytes) in [("small", 10), ("page", 4096), ("large", 3 << 20)] {
        let contents: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).expect("u8")).collect();
        fs::write(home.path(name), &contents).expect("write");
        let tier = format!("file:~/{name}:64MiB");
        for data in [None, Some("new")] {
            let refusal = home.refusal(data, Some(&tier));
            assert!(refusal.contains(&format!("/{name}")), "{refusal}");
            assert!(refusal.contains("nothing was changed"), "{refusal}");
            assert!(refusal.contains("does not exist yet"), "{refusal}");
            assert!(fs::read(home.path(name)).expect("read") == contents, "{name} was changed");
        }
    }
    // The refusals left nothing behind that would affect another attempt.
    home.show(Some("new"), Some("file:~/store:64MiB"), TABLE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_one_database_is_refused_to_every_other() {
    let home = Home::new();
    let tier = Some("file:~/store:64MiB");
    home.show(Some("one"), tier, TABLE).await;
    home.show(Some("other"), None, TABLE).await;
    for data in [None, Some("new")] {
        let refusal = home.refusal(data, tier);
        assert!(refusal.contains("pages of another database"), "{refusal}");
    }
    let refusal = home.refusal(Some("other"), tier);
    assert!(refusal.contains("the tables of this database are elsewhere"), "{refusal}");
    let refusal = home.refusal(Some("new"), Some("file:~/other/store.terrace"));
    assert!(refusal.contains("pages of another database"), "{refusal}");
    let refusal = home.refusal(Some("one"), None);
    assert!(refusal.contains("say --tier file:/"), "{refusal}");
    for (data, tier) in [("one", tier), ("other", None)] {
        assert_eq!(home.show(Some(data), tier, SUM).await, "300000 45000150000");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_missing_empty_or_cut_short_is_not_replaced() {
    let home = Home::new();
    for (data, tier, file) in
        [("own", None, "own/store.terrace"), ("named", Some("file:~/store:64MiB"), "store")]
    {
        home.show(Some(data), tier, TABLE).await;
        let (file, aside) = (home.path(file), home.path("aside"));
        let whole = fs::read(&file).expect("read");
        fs::rename(&file, &aside).expect("rename");
        let refusal = home.refusal(Some(data), tier);
        assert!(refusal.contains("No such file"), "{refusal}");
        assert!(!file.exists(), "nothing was made in its place");
        fs::write(&file, "").expect("write");
        let refusal = home.refusal(Some(data), tier);
        assert!(refusal.contains("it is empty"), "{refusal}");
        fs::write(&file, &whole[..1 << 20]).expect("write");
        let refusal = home.refusal(Some(data), tier);
        assert!(refusal.contains("cut short"), "{refusal}");
        assert_eq!(fs::metadata(&file).expect("metadata").len(), 1 << 20);
        fs::rename(&aside, &file).expect("rename");
        assert_eq!(home.show(Some(data), tier, SUM).await, "300000 45000150000");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_may_be_moved_and_must_be_large_enough() {
    let home = Home::new();
    home.show(Some("data"), Some("file:~/store:64MiB"), TABLE).await;
    let refusal = home.refusal(Some("data"), Some("file:~/store:1MiB"));
    assert!(refusal.contains("say a size of at least"), "{refusal}");
    let moved = home.path("moved");
    fs::rename(home.path("store"), &moved).expect("rename");
    let tier = Some("file:~/moved:32MiB");
    assert_eq!(home.show(Some("data"), tier, SUM).await, "300000 45000150000");
    let kept = fs::read_to_string(home.path("data/STORE")).expect("STORE");
    assert_eq!(kept.trim_end(), format!("file:{}", moved.display()));
    let refusal = home.refusal(Some("data"), Some("file:~/store:64MiB"));
    assert!(refusal.contains("not in file:") && refusal.contains("say --tier"), "{refusal}");
    assert!(!home.path("store").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_first_start_is_finished() {
    let home = Home::new();
    drop(home.open(Some("data"), None).expect("opens"));
    fs::write(home.path("data/STORE"), "").expect("write");
    drop(home.open(Some("data"), None).expect("an empty STORE says nothing"));
    fs::remove_file(home.path("data/STORE")).expect("remove");
    fs::remove_file(home.path("data/store.terrace")).expect("remove");
    home.show(Some("data"), None, TABLE).await;
    fs::remove_file(home.path("data/STORE")).expect("remove");
    assert_eq!(home.show(Some("data"), None, SUM).await, "300000 45000150000");
    // A power loss may leave the first page as zeros.
    fs::write(home.path("zeros"), [0; 4096]).expect("write");
    home.show(Some("late"), Some("file:~/zeros:64MiB"), TABLE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_temporary_database_leaves_behind_is_anybodys() {
    let home = Home::new();
    let tier = Some("file:~/store:64MiB");
    for _ in 0..2 {
        home.show(None, tier, TABLE).await;
    }
    home.show(Some("data"), tier, TABLE).await;
    home.refusal(None, tier);
    assert_eq!(home.show(Some("data"), tier, SUM).await, "300000 45000150000");
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let device = fs::File::options().write(true).open(path).expect("open");
    device.write_all_at(bytes, offset).expect("write");
    device.sync_all().expect("sync");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_with_a_foreign_mark_is_refused() {
    const BYTES: u64 = 64 * MIB;
    let Some(device) = or_skip("a block device", LoopDevice::attach(BYTES)) else { return };
    let home = Home::new();
    let tier = format!("dev:{}", device.path().display());
    // The offsets of the signatures of ext4, btrfs and a backup partition table.
    for offset in [1080, 65_600, BYTES - 512] {
        write_at(device.path(), offset, b"mine");
        for data in [None, Some("data")] {
            let refusal = home.refusal(data, Some(&tier));
            assert!(refusal.contains("blkdiscard"), "{refusal}");
        }
        write_at(device.path(), offset, &[0; 4]);
    }
    home.show(Some("data"), Some(&tier), TABLE).await;
    home.refusal(None, Some(&tier));
    home.refusal(Some("other"), Some(&tier));
    assert_eq!(home.show(Some("data"), Some(&tier), SUM).await, "300000 45000150000");
}

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use terrace_store::Write;
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::numa::Node;
use terrace_sys::probe::Probe;
use terrace_sys::size::{GIB, MIB, TIB, to_usize};

use super::*;
use crate::error::EXAMPLES;

fn specs() -> impl Strategy<Value = TierSpec> {
    let capacity = || CAPACITY_BYTES_MIN..=u64::MAX;
    let path = || "[ -~]{1,21}".prop_map(PathBuf::from);
    let maybe = || prop::option::of(capacity());
    let rate = || prop::option::of(STORE_RATE_MIN..=u64::MAX);
    prop_oneof![
        capacity().prop_map(|capacity_bytes| TierSpec::Dram { capacity_bytes }),
        (any::<u32>(), capacity()).prop_map(|(node, capacity_bytes)| TierSpec::Node {
            kind: NodeKind::Node,
            node: Some(node),
            capacity_bytes
        }),
        (any::<Option<u32>>(), capacity()).prop_map(|(node, capacity_bytes)| TierSpec::Node {
            kind: NodeKind::Cxl,
            node,
            capacity_bytes
        }),
        (capacity(), 0..=terrace_store::LATENCY_NS_MAX).prop_map(|(capacity_bytes, latency_ns)| {
            TierSpec::Emulated { capacity_bytes, latency_ns }
        }),
        (path(), maybe(), rate()).prop_map(|(path, capacity_bytes, bytes_per_second)| {
            TierSpec::File { path, capacity_bytes, bytes_per_second }
        }),
        (path(), maybe(), rate()).prop_map(|(path, capacity_bytes, bytes_per_second)| {
            TierSpec::Device { path, capacity_bytes, bytes_per_second }
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(spec in specs()) {
        let text = spec.to_string();
        prop_assert_eq!(text.parse::<TierSpec>().map_err(|e| e.to_string()), Ok(spec), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(dram|node|cxl|emu|file|dev)?[0-9]{0,3}:?.{0,20}") {
        if let Err(error) = text.parse::<TierSpec>() {
            prop_assert!(error.to_string().contains("dram:2GiB"));
        }
    }
}

#[test]
fn blanks_at_the_end_of_a_path_are_read_back() {
    let spec: TierSpec = "file:/a :".parse().expect("a tier");
    assert_eq!(spec.to_string(), "file:/a :");
    assert_eq!(spec.to_string().parse::<TierSpec>().ok(), Some(spec));
}

#[test]
fn the_forms_of_the_documentation_are_read() {
    let parse = |text: &str| text.parse::<TierSpec>().map_err(|error| error.to_string());
    assert_eq!(parse("dram:2GiB"), Ok(TierSpec::Dram { capacity_bytes: 2 * GIB }));
    let node = |kind, node| TierSpec::Node { kind, node, capacity_bytes: 8 * GIB };
    assert_eq!(parse("node1:8GiB"), Ok(node(NodeKind::Node, Some(1))));
    assert_eq!(parse("cxl:8GiB"), Ok(node(NodeKind::Cxl, None)));
    let emulated = |latency_ns| TierSpec::Emulated { capacity_bytes: 8 * GIB, latency_ns };
    assert_eq!(parse("emu:8GiB@2us"), Ok(emulated(2000)));
    assert_eq!(parse("emu:8GiB"), Ok(emulated(EMULATED_LATENCY_NS)));
    let path = PathBuf::from("/data/terrace");
    let file = |capacity_bytes, bytes_per_second| TierSpec::File {
        path: path.clone(),
        capacity_bytes,
        bytes_per_second,
    };
    let rate = Some(250 * MIB);
    assert_eq!(parse("file:/data/terrace:100GiB"), Ok(file(Some(100 * GIB), None)));
    assert_eq!(parse("file:/data/terrace"), Ok(file(None, None)));
    assert_eq!(parse("file:/data/terrace:100GiB@250MiB/s"), Ok(file(Some(100 * GIB), rate)));
    assert_eq!(parse("file:/data/terrace:@250MiB/s"), Ok(file(None, rate)));
    let path = PathBuf::from("/dev/nvme1n1");
    let capacity_bytes = Some(TIB);
    assert_eq!(
        parse("dev:/dev/nvme1n1:1TiB@250MiB/s"),
        Ok(TierSpec::Device { path, capacity_bytes, bytes_per_second: rate })
    );
    for text in EXAMPLES.split([',', ' ']).filter(|word| word.contains(':')) {
        assert_eq!(parse(text).map(|spec| spec.to_string()).as_deref(), Ok(text));
    }
}

#[test]
fn wrong_texts_are_refused_with_what_would_be_right() {
    for (text, reason) in [
        ("dram", "a colon and a size are missing"),
        ("dram:", "is not a size"),
        ("dram:2 gigs", "write a number and KiB"),
        ("dram:5", "less than the least capacity"),
        ("node:8GiB", "the number of the node is missing"),
        ("node99999999999:8GiB", "the number of the node is missing"),
        ("disk:8GiB", "no kind of tier \"disk\""),
        ("emu:8GiB@fast", "not a delay such as 250ns"),
        ("emu:8GiB@2ms", "above the most, 1ms"),
        ("file:", "the path is missing"),
        ("file::8GiB", "the path is missing"),
        ("file:/a:8Gigs", "is not a size"),
        ("file:/a:8GiB@fast", "not a rate such as 250MiB/s"),
        ("file:/a:8GiB@250MiB", "not a rate such as 250MiB/s"),
        ("file:/a:8GiB@1KiB/s", "below the least, 1MiB/s"),
    ] {
        let error = text.parse::<TierSpec>().expect_err(text).to_string();
        assert!(error.contains(reason) && error.contains(text), "{error}");
        assert!(error.contains("emu:8GiB@250ns"), "{error}");
    }
}

/// Returns a machine with one node of processors and one memory expander.
fn machine() -> Probe {
    let mut probe = Probe::detect();
    probe.memory_bytes = 24 * GIB;
    probe.memory_available_bytes = 20 * GIB;
    probe.memory_limit_bytes = None;
    let node = |id, total_bytes, cpus: &[u32]| Node {
        id,
        total_bytes,
        free_bytes: total_bytes / 2,
        cpus: cpus.to_vec(),
    };
    probe.nodes = vec![node(0, 16 * GIB, &[0, 1]), node(2, 8 * GIB, &[])];
    probe
}

fn refusal(text: &str, probe: &Probe) -> String {
    let spec: TierSpec = text.parse().expect("the form is right");
    spec.validate(probe).expect_err(text).to_string()
}

#[test]
fn memory_that_is_not_there_is_refused_with_what_there_is() {
    let mut probe = machine();
    assert!(refusal("dram:25GiB", &probe).contains("this machine has 24GiB, of which 20GiB"));
    assert!(refusal("node1:1GiB", &probe).contains("node2 (8GiB, no processors)"));
    assert!(refusal("cxl:9GiB", &probe).contains("node 2 has 8GiB, of which 4GiB are free"));
    probe.memory_limit_bytes = Some(GIB);
    assert!(refusal("emu:2GiB", &probe).contains("the control group allows 1GiB"));
    probe.nodes.truncate(1);
    assert!(refusal("cxl:1GiB", &probe).contains("no node without processors"));
}

#[test]
fn memory_tiers_resolve_to_nodes_and_delays() {
    let probe = machine();
    let tier = |text: &str| {
        let spec: TierSpec = text.parse().expect("the form is right");
        spec.validate(&probe).expect("the machine has it");
        spec.memory_tier(&probe).expect("the machine has it").expect("memory")
    };
    assert_eq!(tier("cxl:8GiB").node, Some(2));
    assert_eq!(tier("node0:8GiB").node, Some(0));
    assert_eq!(tier("emu:1GiB@70ns").latency_ns, 70);
    assert_eq!(tier("dram:1GiB"), crate::MemoryTier::dram(GIB));
}

#[test]
fn tiers_that_do_not_fit_together_are_refused() {
    let probe = machine();
    let all = |texts: &[&str]| {
        let specs: Vec<TierSpec> = texts.iter().map(|t| t.parse().expect("right")).collect();
        TierSpec::validate_all(&specs, &probe).map_err(|error| error.to_string())
    };
    assert_eq!(all(&["dram:16GiB", "cxl:8GiB"]), Ok(()));
    let error = all(&["dram:20GiB", "emu:8GiB"]).expect_err("28 of 24 GiB");
    assert!(error.contains("emu:8GiB") && error.contains("28GiB of memory are wanted"), "{error}");
    let error = all(&["dram:1GiB", "dram:2GiB"]).expect_err("twice");
    assert!(error.contains("named twice"), "{error}");
}

#[test]
fn paths_that_cannot_be_stores_are_refused() {
    let probe = machine();
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let at = |name: &str| format!("file:{}", dir.path().join(name).display());
    assert!(refusal(&at(""), &probe).contains("name a file, such as"));
    assert!(refusal(&at("missing/x"), &probe).contains("is not usable"));
    assert!(refusal(&format!("{}:1000000TiB", at("x")), &probe).contains("has room for"));
    assert!(refusal("file:/dev/null", &probe).contains("named dev:PATH"));
    assert!(refusal("dev:/dev/null", &probe).contains("not a block device"));
    assert!(refusal("dev:/dev/missing", &probe).contains("No such file"));
    let spec: TierSpec = at("x").parse().expect("the form is right");
    spec.validate(&probe).expect("the directory exists");
    assert!(!Path::new(&dir.path().join("x")).exists(), "validation creates nothing");
    let store = spec.open_store().expect("writable").expect("a store");
    let error = spec.open_store().expect_err("open already").to_string();
    assert!(error.contains("this process has locked it"), "{error}");
    drop(store);
    spec.open_store().expect("closed again");
}

#[test]
fn a_store_has_the_rate_of_its_text() {
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let spec = format!("file:{}:16MiB@20MiB/s", dir.path().join("x").display());
    let spec: TierSpec = spec.parse().expect("the form is right");
    let store = spec.open_store().expect("writable").expect("a store");
    let extent = store.allocate(4 * MIB).expect("room");
    let data = AlignedBuffer::zeroed(to_usize(4 * MIB));
    let began = Instant::now();
    let written = store.write_batch(&[Write { extent, data: &data }]);
    assert!(written.iter().all(Result::is_ok));
    assert!(began.elapsed() >= Duration::from_millis(190), "{:?}", began.elapsed());
}

use super::*;

fn specs(texts: &[&str]) -> Vec<TierSpec> {
    texts.iter().map(|text| text.parse().expect("the form is right")).collect()
}

#[test]
fn every_tier_is_examined_and_nothing_stays_behind() {
    let dir = tempfile::tempdir().expect("writable");
    let file = dir.path().join("store");
    std::fs::write(&file, b"foreign data").expect("writable");
    let text = format!("file:{}:1GiB", file.display());
    let specs = specs(&["dram:256MiB", "emu:1GiB@300ns", "node900:1GiB", &text]);
    let report = Report::gather_with(&specs, dir.path(), &Effort::brief());
    let names: Vec<&str> = report.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names[0], "dram");
    assert!(names[1].starts_with("temporary file in"));
    assert_eq!(names[2..4], ["emu", "node900"]);
    assert_eq!(report.tiers[0].capacity_bytes, Some(256 << 20));
    assert!(report.tiers[2].memory.is_some_and(|figures| figures.latency_ns > 300.0));
    let error = report.tiers[3].error.as_deref().expect("no such node");
    assert!(error.contains("node0"), "{error}");
    assert!(report.tiers[4].store.is_some(), "{:?}", report.tiers[4].error);
    assert_eq!(std::fs::read(&file).expect("still there"), b"foreign data");
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
}

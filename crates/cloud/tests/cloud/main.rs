//! Files of a server of S3 and HTTP in this process.

mod server;

use std::io::Read as _;

use bytes::Bytes;
use server::Server;
use terrace_cloud::address::Address;
use terrace_cloud::{
    CloudError, CloudFile, CloudFiles, CloudReader, Secret, UploadStore, UploadTarget, VersionStore,
};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

const FILES_MAX: usize = 1000;

fn files() -> CloudFiles {
    let pool = Pool::new(PoolConfig::new("cloud", Ledger::new(32 << 20))).expect("a pool");
    CloudFiles::new(&pool, 16 << 20).expect("a space")
}

/// Files of the server's buckets, without a key.
fn files_of(server: &Server) -> CloudFiles {
    let files = files();
    files.secrets().create(secret(server), false, false).expect("a secret");
    files
}

fn secret(server: &Server) -> Secret {
    let mut secret = Secret::new("test");
    secret.set("endpoint", &server.endpoint()).expect("an endpoint");
    secret.set("use_ssl", "false").expect("an option");
    secret
}

fn find(files: &CloudFiles, address: &str) -> Result<Vec<CloudFile>, CloudError> {
    let address = Address::parse(address).expect("valid").expect("an address");
    files.find(&address, FILES_MAX)
}

fn keys(files: &CloudFiles, address: &str) -> Vec<String> {
    let found = find(files, address).expect("files");
    found.into_iter().map(|file| file.address.key).collect()
}

fn content(len: usize) -> Bytes {
    (0..len).map(|at| u8::try_from(at * 7 % 253).expect("a byte")).collect()
}

/// Files that are found together are those of `find`, for that handle, until the result is dropped.
#[test]
fn files_are_found_together() {
    let server = Server::start();
    server.put("bucket/a", "1");
    server.put("bucket/b", "22");
    let files = files_of(&server);
    assert!(!files.is_used());
    let address = |text: &str| Address::parse(text).expect("valid").expect("an address");
    let texts = ["s3://bucket/a", "s3://bucket/b", "s3://bucket/missing/x*"];
    server.gather(texts.len());
    let together = files.find_together(texts.map(address).to_vec(), FILES_MAX);
    assert!(files.is_used());
    let requests = server.requests();
    server.put("bucket/a", "333");
    let bytes = |files: &CloudFiles| find(files, texts[0]).expect("a file")[0].bytes;
    assert_eq!((bytes(&files), keys(&files, texts[1])), (1, vec!["b".to_owned()]));
    assert_eq!(keys(&files, texts[2]), [""; 0]);
    assert_eq!(server.requests(), requests);
    assert_eq!(bytes(&files.apart()), 3);
    drop(together);
    assert_eq!(bytes(&files), 3);
}

#[test]
fn patterns_and_directories_stand_for_keys() {
    let server = Server::start();
    for key in ["a.csv", "b.csv", "d/c.csv", "d/e/f.csv", "d/.hidden", "x y%.csv", "year=1/z.csv"] {
        server.put(&format!("bucket/{key}"), key.to_owned());
    }
    let files = files_of(&server);
    assert_eq!(keys(&files, "s3://bucket/a.csv"), ["a.csv"]);
    assert_eq!(keys(&files, "s3://bucket/*.csv"), ["a.csv", "b.csv", "x y%.csv"]);
    assert_eq!(keys(&files, "s3://bucket/**/*.csv").len(), 6);
    assert_eq!(keys(&files, "s3://bucket/d"), ["d/c.csv", "d/e/f.csv"]);
    assert_eq!(keys(&files, "s3://bucket/d/"), ["d/c.csv", "d/e/f.csv"]);
    assert_eq!(keys(&files, "s3://bucket/y*=?/z.csv"), ["year=1/z.csv"]);
    assert_eq!(keys(&files, "s3://bucket/nosuch.csv"), [""; 0]);
    let address = Address::parse("s3://bucket/**/*").expect("valid").expect("an address");
    let error = files.find(&address, 2).expect_err("too many").to_string();
    assert!(error.contains("more than 2 files"), "{error}");
    let spaced = &find(&files, "s3://bucket/x y%.csv").expect("found")[0];
    assert_eq!(files.read(spaced, 0..99).expect("read"), "x y%.csv");
}

#[test]
fn lists_go_on_behind_a_key() {
    let server = Server::start();
    for name in ["00.json", "01.json", "02.json", "03.json", "sub/04.json", "_last"] {
        server.put(&format!("bucket/t/log/{name}"), name.to_owned());
    }
    let files = files_of(&server);
    let directory = |text: &str| Address::parse(text).expect("valid").expect("an address");
    let names = |after: &str| -> Vec<String> {
        let found = files.list_after(&directory("s3://bucket/t/log/"), after, FILES_MAX);
        let found = found.expect("files").into_iter();
        found.map(|file| file.address.key.replace("t/log/", "")).collect()
    };
    assert_eq!(names(""), ["00.json", "01.json", "02.json", "03.json", "_last"]);
    assert_eq!(names("t/log/01.json"), ["02.json", "03.json", "_last"]);
    assert_eq!(names("t/log/zz"), [""; 0]);
    let http = directory(&format!("http://{}/bucket/t/log/", server.endpoint()));
    let error = files.list_after(&http, "", FILES_MAX).expect_err("no lists").to_string();
    assert!(error.contains("HTTP has no lists"), "{error}");
    let one = files.present(&directory("s3://bucket/t/log/_last")).expect("a file");
    assert_eq!((one.bytes, one.tag.is_some()), (5, true));
    let missing = files.present(&directory("s3://bucket/t/log/nosuch"));
    assert!(matches!(missing, Err(CloudError::Missing { .. })), "{missing:?}");
}

#[test]
fn a_file_is_read_once_until_it_changes() {
    let server = Server::start();
    server.put("bucket/x.bin", content(700_000));
    let files = files_of(&server);
    let file = find(&files, "s3://bucket/x.bin").expect("found").remove(0);
    assert_eq!(file.bytes, 700_000);
    let mut all = Vec::new();
    CloudReader::new(&files, &file, 0).read_to_end(&mut all).expect("read");
    assert_eq!(all, content(700_000));
    let requests = server.requests();
    assert_eq!(files.read(&file, 300_000..400_000).expect("read").len(), 100_000);
    assert_eq!(server.requests(), requests, "cached blocks need no request");
    // The cached version stays readable; one that is not cached any more is not mixed with the new.
    server.put("bucket/x.bin", content(5));
    let new = find(&files, "s3://bucket/x.bin").expect("found").remove(0);
    assert_eq!(files.read(&new, 0..9).expect("read"), content(5));
    let cold = files_of(&server);
    let error = cold.read(&file, 0..9).expect_err("another version").to_string();
    assert!(error.contains("changed while it was read"), "{error}");
}

#[test]
fn keys_and_endpoints_come_from_secrets() {
    let server = Server::start();
    server.put("bucket/x.csv", "a\n1\n");
    server.require_key("mary");
    let files = files_of(&server);
    let error = find(&files, "s3://bucket/x.csv").expect_err("no key").to_string();
    assert!(error.contains("is refused") && error.contains("CREATE SECRET"), "{error}");
    let mut right = secret(&server);
    right.set("key_id", "mary").expect("an option");
    right.set("secret", "had a little lamb").expect("an option");
    files.secrets().create(right, true, false).expect("replaced");
    assert_eq!(keys(&files, "s3://bucket/x.csv"), ["x.csv"]);
}

#[test]
fn http_files_are_read_with_and_without_ranges() {
    let server = Server::start();
    server.put("dir/x.bin", content(600_000));
    let address = format!("http://{}/dir/x.bin?sig=a/b", server.endpoint());
    let files = files();
    let file = find(&files, &address).expect("found").remove(0);
    assert_eq!(
        files.read(&file, 599_990..600_000).expect("read"),
        content(600_000).slice(599_990..)
    );
    server.send_no_ranges();
    assert_eq!(files.read(&file, 0..10).expect("read"), content(10));
    let missing = format!("http://{}/nosuch", server.endpoint());
    assert_eq!(find(&files, &missing).expect("none"), []);
    let error = find(&files, &format!("http://{}/*.csv", server.endpoint())).expect_err("a list");
    assert!(error.to_string().contains("HTTP has no lists"), "{error}");
}

#[test]
fn servers_that_fail_are_asked_again_and_dead_ones_are_named() {
    let server = Server::start();
    server.put("bucket/x.csv", "a\n1\n");
    let files = files_of(&server);
    server.fail(2);
    assert_eq!(keys(&files, "s3://bucket/x.csv"), ["x.csv"]);
    let dead = "http://127.0.0.1:9/x.csv";
    let error = find(&files, dead).expect_err("nothing listens there").to_string();
    assert!(error.contains("cannot read http://127.0.0.1:9/x.csv"), "{error}");
}

#[tokio::test]
async fn versions_are_objects_that_hold_their_ranges() {
    use object_store::ObjectStoreExt as _;
    let server = Server::start();
    server.put("bucket/d/x.parquet", content(1000));
    let files = files_of(&server);
    let file = find(&files, "s3://bucket/d/x.parquet").expect("found").remove(0);
    let (object, store) = (file.object(), VersionStore::new(files));
    assert_eq!(store.head(&object.location).await.expect("known").size, 1000);
    let range = store.get_range(&object.location, 10..20).await.expect("read");
    assert_eq!(range, content(1000).slice(10..20));
    let all = store.get(&object.location).await.expect("read").bytes().await.expect("read");
    assert_eq!(all, content(1000));
    assert!(store.delete(&object.location).await.is_err(), "files are only read");
}

fn target(files: &CloudFiles, address: &str, is_single: bool) -> Result<UploadTarget, CloudError> {
    let address = Address::parse(address).expect("valid").expect("an address");
    UploadTarget::new(files, address, is_single)
}

/// The place in an upload store of a file below a target.
fn place(target: &UploadTarget, file: &str) -> object_store::path::Path {
    let url = target.url("bin");
    let path = url.split_once("://files/").expect("a store").1;
    object_store::path::Path::parse(format!("{path}{file}")).expect("a path")
}

/// Writes a file in parts of 5 MiB.
async fn write(store: &UploadStore, place: &object_store::path::Path, bytes: Bytes) {
    use object_store::ObjectStoreExt as _;
    let mut upload = store.put_multipart(place).await.expect("an upload");
    for part in bytes.chunks(5 << 20) {
        upload.put_part(Bytes::copy_from_slice(part).into()).await.expect("a part");
    }
    upload.complete().await.expect("written");
}

/// Waits until the server has no upload, for a few seconds.
fn wait_for_no_uploads(server: &Server) {
    for _ in 0..500 {
        if server.uploads() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} uploads are left over", server.uploads());
}

#[tokio::test(flavor = "multi_thread")]
async fn written_files_appear_together() {
    use object_store::ObjectStoreExt as _;
    let server = Server::start();
    let files = files_of(&server);
    let store = UploadStore::new(files.clone());
    let several = target(&files, "s3://bucket/d/", false).expect("a target");
    let upload = several.begin().expect("begun");
    assert!(several.begin().is_err(), "a target is written once at a time");
    write(&store, &place(&several, "k=1/a.bin"), content(11 << 20)).await;
    store.put(&place(&several, "k=2/b.bin"), Bytes::from("b").into()).await.expect("written");
    store.put(&place(&several, "empty.bin"), Bytes::new().into()).await.expect("written");
    assert_eq!((server.names(), server.uploads()), (vec![], 3), "no file appears before the end");
    upload.publish().await.expect("published");
    assert_eq!(server.names(), ["bucket/d/empty.bin", "bucket/d/k=1/a.bin", "bucket/d/k=2/b.bin"]);
    assert_eq!(server.bytes("bucket/d/k=1/a.bin"), Some(content(11 << 20)));
    assert_eq!(server.bytes("bucket/d/empty.bin"), Some(Bytes::new()));
    assert_eq!(server.uploads(), 0);
    let single = target(&files, "s3://bucket/x.bin", true).expect("a target");
    let upload = single.begin().expect("begun");
    write(&store, &place(&single, ""), content(9)).await;
    upload.publish().await.expect("published");
    assert_eq!(server.bytes("bucket/x.bin"), Some(content(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn written_files_that_do_not_end_leave_nothing() {
    use object_store::ObjectStoreExt as _;
    let server = Server::start();
    let files = files_of(&server);
    let store = UploadStore::new(files.clone());
    let several = target(&files, "s3://bucket/d", false).expect("a target");
    let upload = several.begin().expect("begun");
    write(&store, &place(&several, "a.bin"), content(6 << 20)).await;
    let mut unfinished = store.put_multipart(&place(&several, "b.bin")).await.expect("an upload");
    unfinished.put_part(Bytes::from("b").into()).await.expect("a part");
    assert_eq!(server.uploads(), 2);
    let error = upload.publish().await.expect_err("a file is not complete").to_string();
    assert!(error.contains("s3://bucket/d") && error.contains("before all rows"), "{error}");
    assert_eq!((server.names(), server.uploads()), (vec![], 0));
    let upload = several.begin().expect("begun anew");
    write(&store, &place(&several, "a.bin"), content(9)).await;
    drop(upload);
    wait_for_no_uploads(&server);
    assert_eq!(server.names(), [""; 0]);
    let late = store.put_multipart(&place(&several, "c.bin")).await.expect_err("ended").to_string();
    assert!(late.contains("no statement"), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_that_cannot_be_written_are_named() {
    use object_store::ObjectStoreExt as _;
    let server = Server::start();
    let files = files_of(&server);
    for (address, is_single, why) in [
        ("http://h/x.csv", true, "HTTP servers take no files"),
        ("s3://b/*.csv", true, "a pattern"),
        ("s3://b/d/", true, "a directory"),
        ("s3://b", true, "a directory"),
    ] {
        let error = target(&files, address, is_single).expect_err("refused").to_string();
        assert!(error.contains(why) && error.contains(address), "{error}");
    }
    let store = UploadStore::new(files.clone());
    let missing = target(&files, "s3://nosuch/x.bin", true).expect("a target");
    let upload = missing.begin().expect("begun");
    let error = store.put(&place(&missing, ""), Bytes::from("x").into()).await;
    let error = error.expect_err("no bucket").to_string();
    assert!(error.contains("there is no bucket nosuch"), "{error}");
    drop(upload);
    let full = target(&files, "s3://bucket/x.bin", true).expect("a target");
    let upload = full.begin().expect("begun");
    server.refuse_parts(true);
    store.put(&place(&full, ""), Bytes::from("x").into()).await.expect_err("refused");
    upload.publish().await.expect_err("no file is complete");
    wait_for_no_uploads(&server);
    assert_eq!(server.names(), [""; 0]);
}

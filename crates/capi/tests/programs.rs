//! C and C++ programs built against the installed library.
//!
//! Each test builds the programs in a different way and runs them. If the machine lacks a tool or a
//! feature, the test says so on standard error, and passes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;
use terrace_testkit::needs;

const C: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];
const CPP: &[&str] = &["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];
/// Libraries that the static library needs, for builds without pkg-config.
const STATIC_NEEDS: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// Runs a command, which must succeed, and returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, failed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{failed}", output.status);
    said.into_owned()
}

fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// True if all programs are installed; reports the missing ones otherwise.
fn has(programs: &[&str]) -> bool {
    let missing = |name: &&&str| Command::new(name).arg("--version").output().is_err();
    let missing: Vec<_> = programs.iter().filter(missing).collect();
    if !missing.is_empty() {
        needs::skip(&format!("{missing:?} are missing on this machine"));
    }
    missing.is_empty()
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(name: &str) -> PathBuf {
    package().join("programs").join(name)
}

/// Creates a directory on disk, where cargo keeps the files of tests.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Returns the prefix of the library, installed by `cargo x install`. Cargo has built the library
/// beside this test.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of this program");
        let built = test.parent().expect("a directory");
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("terrace");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
        let mut install = command(cargo, &["x", "install", "--prefix"]);
        install.arg(&prefix).arg("--built").arg(built).current_dir(package().join("../.."));
        run(&mut install);
        prefix
    })
}

/// Runs a program with a directory for its files, and with the shared library on its path. If the
/// kernel lacks a required feature, reports that and skips the program.
fn play(name: &str, program: &Path) {
    let can_play = name.starts_with("cost") || needs::regions() && needs::nodes();
    if !can_play {
        return;
    }
    let files = directory();
    run(Command::new(program).arg(files.path()).env("LD_LIBRARY_PATH", prefix().join("lib")));
}

/// Compiles a program with a library and runs it.
fn compile_and_play(compiler: &str, flags: &[&str], name: &str, library: &[&str]) {
    let files = directory();
    let program = files.path().join("program");
    let mut compile = command(compiler, flags);
    compile.arg("-pthread").arg("-I").arg(prefix().join("include"));
    compile.arg(source(name)).arg("-o").arg(&program);
    compile.arg("-L").arg(prefix().join("lib")).args(library);
    run(&mut compile);
    play(name, &program);
}

fn with_both_libraries(compiler: &str, flags: &[&str], names: &[&str]) {
    let archive = prefix().join("lib/libterrace.a");
    let mut fixed = vec![archive.to_str().expect("a path in UTF-8")];
    fixed.extend(STATIC_NEEDS);
    for name in names {
        for library in [&["-lterrace"][..], &fixed] {
            compile_and_play(compiler, flags, name, library);
        }
    }
}

#[test]
fn programs_in_c_run_with_either_library() {
    if has(&["cc"]) {
        let names = ["heap.c", "objects.c", "errors.c", "fork.c", "durability.c", "cost.c"];
        with_both_libraries("cc", C, &names);
    }
}

/// Loads the library as plug-ins do, without a setting of the loader.
#[test]
fn a_program_that_runs_loads_the_library() {
    if !has(&["cc"]) {
        return;
    }
    let files = directory();
    let program = files.path().join("program");
    let mut compile = command("cc", C);
    compile.arg("-pthread").arg("-I").arg(prefix().join("include"));
    run(compile.arg(source("plugin.c")).arg("-o").arg(&program).arg("-ldl"));
    run(Command::new(program).arg(prefix().join("lib/libterrace.so")));
}

#[test]
fn programs_in_cpp_run_with_either_library() {
    if has(&["c++"]) {
        with_both_libraries("c++", CPP, &["pmr.cpp", "store.cpp"]);
    }
}

#[test]
fn each_header_stands_alone() {
    if !has(&["cc", "c++"]) {
        return;
    }
    let header = |name| package().join("include").join(name);
    let (c, pmr) = (header("terrace.h"), header("terrace_pmr.hpp"));
    let objects = header("terrace_objects.hpp");
    let check = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];
    for (compiler, standard, language, header) in [
        ("cc", "-std=c99", "c", &c),
        ("cc", "-std=c11", "c", &c),
        ("c++", "-std=c++11", "c++", &c),
        ("c++", "-std=c++17", "c++", &pmr),
        ("c++", "-std=c++20", "c++", &pmr),
        ("c++", "-std=c++17", "c++", &objects),
        ("c++", "-std=c++20", "c++", &objects),
    ] {
        let files = directory();
        let includes = files.path().join("includes");
        let twice = format!("#include {header:?}\n#include {header:?}\n");
        std::fs::write(&includes, twice).expect("written");
        run(command(compiler, &check).arg(standard).args(["-x", language]).arg(&includes));
    }
}

#[test]
fn cmake_finds_the_package() {
    if !has(&["cmake", "cc", "c++"]) {
        return;
    }
    let all = &["heap", "objects", "errors", "fork", "durability", "cost", "pmr", "store"][..];
    let some = &["errors", "pmr", "store"][..];
    for (library, names) in [("-Dterrace_STATIC=OFF", all), ("-Dterrace_STATIC=ON", some)] {
        let build = directory();
        let mut configure = command("cmake", &["-S"]);
        configure.arg(package().join("programs")).arg("-B").arg(build.path()).arg(library);
        run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display())));
        run(command("cmake", &["--build"]).arg(build.path()));
        for name in names {
            play(name, &build.path().join(name));
        }
    }
}

#[test]
fn cmake_refuses_what_is_not_there() {
    if !has(&["cmake", "cc"]) {
        return;
    }
    for (asked, holds) in [
        ("0.1", true),
        ("0.1.0 EXACT", true),
        ("COMPONENTS shared static", true),
        ("0.2", false),
        ("0.0.9", false),
        ("COMPONENTS other", false),
    ] {
        let files = directory();
        let project = format!(
            "cmake_minimum_required(VERSION 3.13)\nproject(asks C)\n\
             find_package(terrace {asked})\nif(NOT terrace_FOUND STREQUAL \"{}\")\n\
             message(FATAL_ERROR \"found: ${{terrace_FOUND}}\")\nendif()\n",
            u8::from(holds)
        );
        std::fs::write(files.path().join("CMakeLists.txt"), project).expect("written");
        let mut configure = command("cmake", &["-S"]);
        configure.arg(files.path()).arg("-B").arg(files.path().join("build"));
        run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display())));
    }
}

#[test]
fn pkg_config_finds_the_package() {
    if !has(&["pkg-config", "cc", "c++"]) {
        return;
    }
    let ask = |arguments: &[&str]| {
        let mut ask = command("pkg-config", arguments);
        run(ask.arg("terrace").env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")))
    };
    assert_eq!(ask(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let needs = ask(&["--libs", "--static"]);
    assert!(STATIC_NEEDS.iter().all(|flag| needs.split_whitespace().any(|it| it == *flag)));
    let flags = ask(&["--cflags", "--libs"]);
    let flags: Vec<_> = flags.split_whitespace().collect();
    for (compiler, standard, name) in [("cc", C, "heap.c"), ("c++", CPP, "pmr.cpp")] {
        let files = directory();
        let program = files.path().join("program");
        let mut compile = command(compiler, standard);
        compile.arg("-pthread").arg(source(name)).arg("-o").arg(&program).args(&flags);
        run(&mut compile);
        play(name, &program);
    }
}

//! Runs client programs in several languages against `terrace serve`. The programs are in
//! `crates/server/clients`; their packages come from the registries of their languages.
//!
//! Each program reports its checks in lines of the Test Anything Protocol. The server has roles and
//! TLS, so every client logs in by SCRAM over TLS, or by a handshake of Arrow Flight. The Flight
//! SQL programs also run against a second server, which has neither.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    cargo::{self, Outcome},
    counts::Counts,
    loom::subdirectory,
};

/// Environment variable that names another Maven repository, such as a mirror.
const REPOSITORY: &str = "TERRACE_MAVEN_REPOSITORY";
const CENTRAL: &str = "https://repo1.maven.org/maven2";
/// JDBC drivers: the file that each is kept in, and its path in a repository.
const DRIVERS: [(&str, &str); 2] = [
    ("driver.jar", "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar"),
    (
        "flight.jar",
        "org/apache/arrow/flight-sql-jdbc-driver/18.3.0/flight-sql-jdbc-driver-18.3.0.jar",
    ),
];

const USER: &str = "admin";
const PASSWORD: &str = "a secret";

/// A language, with the commands that install and run its programs.
struct Language {
    name: &'static str,
    /// Programs that must be installed on this machine.
    tools: &'static [&'static str],
    install: fn(&Path, &Path) -> Result<(), String>,
    programs: &'static [&'static str],
    /// Programs that use Flight SQL; they also run against the server without roles and TLS.
    flight: &'static [&'static str],
    command: fn(&Path, &Path, &str) -> Command,
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "python",
        tools: &["python3"],
        install: install_python,
        programs: &[
            "psycopg_client.py",
            "asyncpg_client.py",
            "sqlalchemy_client.py",
            "adbc_client.py",
            "pg8000_client.py",
            "postgres_fdw_client.py",
            "pg_dump_client.py",
            "s3_client.py",
        ],
        flight: &["flight_client.py"],
        command: |sources, home, program| {
            let mut command = Command::new(home.join("bin/python"));
            command.arg(sources.join(program)).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        },
    },
    Language {
        name: "node",
        tools: &["node", "npm"],
        install: install_node,
        programs: &["client.js"],
        flight: &[],
        command: |_, home, program| {
            let mut command = Command::new("node");
            command.arg(home.join(program));
            command
        },
    },
    Language {
        name: "java",
        tools: &["java", "javac"],
        install: install_java,
        programs: &["Client"],
        flight: &["FlightClient"],
        command: |_, home, program| {
            let mut command = Command::new("java");
            let drivers = DRIVERS.map(|(name, _)| home.join(name).display().to_string());
            let path = format!("{}:{}", home.display(), drivers.join(":"));
            // Arrow allocates memory outside of the heap.
            command.arg("--add-opens=java.base/java.nio=ALL-UNNAMED");
            command.arg("-cp").arg(path).arg(program);
            command
        },
    },
    Language {
        name: "go",
        tools: &["go"],
        install: install_go,
        programs: &["client"],
        flight: &[],
        command: |_, home, program| Command::new(home.join(program)),
    },
    Language {
        name: "rust",
        tools: &["cargo"],
        install: install_rust,
        programs: &["terrace-clients"],
        flight: &[],
        command: |_, home, program| Command::new(home.join("target/debug").join(program)),
    },
];

/// Runs the programs of the named languages, or of all if none is named.
pub fn run(root: &Path, names: &[String]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| !LANGUAGES.iter().any(|it| it.name == **name)) {
        let known: Vec<_> = LANGUAGES.iter().map(|language| language.name).collect();
        return Err(format!("there are no clients of {unknown}; there are {}", known.join(", ")));
    }
    check(root, names).result("clients")
}

/// Runs the programs of all languages.
pub fn all(root: &Path) -> Outcome {
    check(root, &[])
}

fn check(root: &Path, names: &[String]) -> Outcome {
    let mut build = cargo::cargo(root);
    build.args(["build", "--release", "--quiet", "--workspace", "--bin", "terrace"]);
    let built = cargo::run(build);
    if !built.ok {
        return built;
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let languages = LANGUAGES.iter().filter(|language| wanted(language.name));
    match served(root, languages) {
        Ok(outcome) => outcome,
        Err(message) => {
            eprintln!("{message}");
            Outcome::default()
        }
    }
}

/// Runs programs against two servers, which must end cleanly.
fn served<'a>(
    root: &Path,
    languages: impl Iterator<Item = &'a Language>,
) -> Result<Outcome, String> {
    let servers = [Server::start(root, true)?, Server::start(root, false)?];
    let mut outcome = Outcome { ok: true, ..Outcome::default() };
    for language in languages {
        outcome = outcome.and(check_beside(&servers, root, language)?);
    }
    servers.into_iter().try_for_each(Server::end)?;
    Ok(outcome)
}

/// Installs and runs the programs of a language.
fn check_beside(servers: &[Server], root: &Path, language: &Language) -> Result<Outcome, String> {
    let skipped = Outcome {
        ok: true,
        counts: Counts { ignored: 1, ..Counts::default() },
        ..Outcome::default()
    };
    if let Some(missing) = language.tools.iter().find(|tool| !is_installed(tool)) {
        eprintln!("SKIPPED: clients of {}, because {missing} is missing", language.name);
        return Ok(skipped);
    }
    let sources = root.join("crates/server/clients").join(language.name);
    let home = cache()?.join(language.name);
    fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    if let Err(why) = (language.install)(&sources, &home) {
        eprintln!("SKIPPED: clients of {}, whose packages are missing: {why}", language.name);
        return Ok(skipped);
    }
    let mut outcome = Outcome { ok: true, ..Outcome::default() };
    for server in servers {
        let programs = language.programs.iter().filter(|_| server.is_secure);
        for program in programs.chain(language.flight) {
            let mut command = (language.command)(&sources, &home, program);
            server.introduce(&mut command);
            outcome = outcome.and(cargo::run(command));
        }
    }
    Ok(outcome)
}

/// A running `terrace serve` with a fresh directory, and with roles and TLS if it is secure.
struct Server {
    process: Child,
    port: String,
    /// Location of Flight SQL.
    flight: String,
    log: PathBuf,
    certificate: PathBuf,
    is_secure: bool,
}

impl Server {
    fn start(root: &Path, is_secure: bool) -> Result<Self, String> {
        let name = if is_secure { "clients" } else { "clients-plain" };
        let home = subdirectory(root, name);
        if home.exists() {
            fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        }
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let terrace = subdirectory(root, "release").join("terrace");
        let (data, log) = (home.join("data"), home.join("server.log"));
        let (certificate, key) = (home.join("server.crt"), home.join("server.key"));
        if is_secure {
            make_secure(&terrace, &data, &certificate, &key)?;
        }
        let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut serve = Command::new(&terrace);
        serve.args(["serve", "--dram", "256MiB", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        serve.args(["--flight", "127.0.0.1:0"]);
        if is_secure {
            serve.arg("--tls-cert").arg(&certificate).arg("--tls-key").arg(&key);
        }
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut process = serve.spawn().map_err(|error| format!("terrace serve: {error}"))?;
        let said = process.stdout.take().map(BufReader::new);
        let lines: Vec<_> =
            said.into_iter().flat_map(|said| said.lines().take(2)).flatten().collect();
        let port = lines.first().and_then(|line| port_of(line)).map(str::to_owned);
        let flight = lines.get(1).and_then(|line| location_of(line)).map(str::to_owned);
        let (Some(port), Some(flight)) = (port, flight) else {
            let log = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("terrace serve does not listen: {lines:?} {log}"));
        };
        Ok(Self { process, port, flight, log, certificate, is_secure })
    }

    /// Sets the environment that tells a program the server's address and the login.
    fn introduce(&self, command: &mut Command) {
        command.env("TERRACE_HOST", "127.0.0.1").env("TERRACE_PORT", &self.port);
        command.env("TERRACE_USER", USER).env("TERRACE_PASSWORD", PASSWORD);
        command.env("TERRACE_DATABASE", "main").env("TERRACE_SSLMODE", "require");
        command.env("TERRACE_FLIGHT", &self.flight);
        if self.is_secure {
            command.env("TERRACE_ROOT", &self.certificate);
        }
    }

    /// Stops the server by a signal.
    fn end(mut self) -> Result<(), String> {
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &self.process.id().to_string()]);
        output(kill)?;
        let status = self.process.wait().map_err(|error| format!("terrace serve: {error}"))?;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        if !status.success() || log.contains("panicked") {
            return Err(format!("terrace serve has ended with {status}:\n{log}"));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has ended already, unless a check could not run.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Creates a database with a role, and a certificate with its key.
fn make_secure(terrace: &Path, data: &Path, certificate: &Path, key: &Path) -> Result<(), String> {
    let role = format!("CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{PASSWORD}'");
    let mut create = Command::new(terrace);
    create.args(["sql", "--dram", "64MiB", "-c", &role, "--data"]).arg(data);
    output(create)?;
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.arg("-out").arg(certificate).arg("-keyout").arg(key);
    output(openssl)
}

/// Returns the location in a line like `Arrow Flight SQL at grpc://127.0.0.1:8815: adbc...`.
fn location_of(line: &str) -> Option<&str> {
    Some(line.strip_prefix("Arrow Flight SQL at ")?.split_once(": ")?.0)
}

/// Returns the port in a line like `listening at 127.0.0.1:5432: psql ...`.
fn port_of(line: &str) -> Option<&str> {
    let address = line.strip_prefix("listening at ")?.split_once(": ")?.0;
    Some(address.rsplit_once(':')?.1)
}

/// Returns the directory of the packages within the user's cache directory.
fn cache() -> Result<PathBuf, String> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("terrace").join("clients"))
}

fn is_installed(tool: &str) -> bool {
    let argument = if tool == "go" { "version" } else { "--version" };
    let mut command = Command::new(tool);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command without showing its output; the error contains it.
fn output(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {} {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn install_python(sources: &Path, home: &Path) -> Result<(), String> {
    if !home.join("bin/python").exists() {
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv"]).arg(home);
        output(environment)?;
    }
    let mut pip = Command::new(home.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
    pip.arg(sources.join("requirements.txt"));
    output(pip)
}

fn install_node(sources: &Path, home: &Path) -> Result<(), String> {
    copied(sources, home, &["package.json", "client.js"])?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund"]).current_dir(home);
    output(npm)
}

fn install_java(sources: &Path, home: &Path) -> Result<(), String> {
    for (name, place) in DRIVERS {
        let driver = home.join(name);
        if driver.exists() {
            continue;
        }
        let base = env::var(REPOSITORY).ok().filter(|value| !value.is_empty());
        let base = base.as_deref().unwrap_or(CENTRAL).trim_end_matches('/').to_owned();
        let partial = home.join("partial.jar");
        let mut curl = Command::new("curl");
        curl.args(["-fsSL", "--retry", "3", "--max-time", "300", "-o"]).arg(&partial);
        curl.arg(format!("{base}/{place}"));
        output(curl)?;
        fs::rename(&partial, &driver).map_err(|error| format!("{}: {error}", driver.display()))?;
    }
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(home.join("driver.jar")).arg("-d").arg(home);
    javac.args(["Client.java", "FlightClient.java"].map(|name| sources.join(name)));
    output(javac)
}

fn install_go(sources: &Path, home: &Path) -> Result<(), String> {
    copied(sources, home, &["go.mod", "go.sum", "main.go"])?;
    let mut go = Command::new("go");
    go.args(["build", "-o", "client", "."]).current_dir(home);
    output(go)
}

/// Builds the Rust program. It is outside of the workspace, and so are its packages and its target
/// directory.
fn install_rust(sources: &Path, home: &Path) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--quiet", "--manifest-path"]);
    cargo.arg(sources.join("Cargo.toml")).arg("--target-dir").arg(home.join("target"));
    cargo.current_dir(home);
    output(cargo)
}

fn copied(from: &Path, to: &Path, names: &[&str]) -> Result<(), String> {
    for name in names {
        let (source, target) = (from.join(name), to.join(name));
        let failed = |error| format!("{}: {error}", source.display());
        fs::copy(&source, &target).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_listener() {
        let line = "listening at 127.0.0.1:40123: psql -h 127.0.0.1 -p 40123 main";
        assert_eq!(port_of(line), Some("40123"));
        assert_eq!(port_of("error: no"), None);
        let line = "Arrow Flight SQL at grpc+tls://127.0.0.1:40123: adbc_driver_flightsql";
        assert_eq!(location_of(line), Some("grpc+tls://127.0.0.1:40123"));
    }
}

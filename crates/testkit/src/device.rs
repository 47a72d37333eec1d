//! Block devices and small file systems for tests, on systems that permit their creation.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub use crate::needs::or_skip;
use crate::needs::report;

/// A loop device over a file, detached on drop.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _file: TempDir,
}

impl LoopDevice {
    /// Attaches a device of `len_bytes`.
    ///
    /// # Errors
    /// The reason of a failure: not root, no loop devices, no `losetup`.
    pub fn attach(len_bytes: u64) -> Result<LoopDevice, String> {
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let file = dir.path().join("disk");
        let disk = std::fs::File::create(&file).map_err(|error| error.to_string())?;
        disk.set_len(len_bytes).map_err(|error| error.to_string())?;
        let path = command("losetup", &["--find", "--show", &file.display().to_string()])?;
        Ok(LoopDevice { path: PathBuf::from(path.trim()), _file: dir })
    }

    /// Returns the path of the device, such as `/dev/loop0`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(reason) = command("losetup", &["--detach", &self.path.display().to_string()]) {
            report(&format!("{} stays attached: {reason}", self.path.display()));
        }
    }
}

/// A file system of a given size in memory (tmpfs), unmounted on drop.
#[derive(Debug)]
pub struct SmallFileSystem {
    dir: TempDir,
}

impl SmallFileSystem {
    /// Mounts a file system with space for `len_bytes`.
    ///
    /// # Errors
    /// The reason of a failure: not root, no `mount`.
    pub fn mount(len_bytes: u64) -> Result<SmallFileSystem, String> {
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let size = format!("size={len_bytes}");
        let path = dir.path().display().to_string();
        command("mount", &["-t", "tmpfs", "-o", &size, "terrace-test", &path])?;
        Ok(SmallFileSystem { dir })
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let path = self.dir.path().display().to_string();
        if let Err(reason) = command("umount", &[&path]) {
            report(&format!("{path} stays mounted: {reason}"));
        }
    }
}

fn command(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

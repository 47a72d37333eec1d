//! Control groups that limit the memory of one process, including its part of the page cache.
//!
//! A budget that an engine enforces by itself does not cover the kernel's cache of its files: files
//! that are read through the page cache stay in DRAM in addition to the budget. The memory
//! controller counts both. Versions 1 and 2 of it are supported; creating a group needs the
//! privilege to do so, usually root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counter that makes the names of one process's groups unique.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Shell script that enters a group and then executes the command, whose words follow.
const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;

/// Number of attempts to remove a group, and the pause between them: the kernel may take a moment
/// to release a process that has ended.
const REMOVE_TRIES: usize = 50;
const REMOVE_WAIT: Duration = Duration::from_millis(10);

/// Version of the control group interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group below which groups with memory limits can be created.
#[derive(Clone, Debug)]
pub struct MemoryController {
    version: Version,
    parent: PathBuf,
}

impl MemoryController {
    /// Returns the group of this process or above it in which groups with memory limits can be
    /// created.
    ///
    /// # Errors
    /// The reason as text.
    pub fn find() -> Result<MemoryController, String> {
        let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mounts")?);
        let found = unified(&groups, &mounts).or_else(|| legacy(&groups, &mounts));
        let controller = found.ok_or(
            "no control group of this process hands on the memory controller \
             (cgroup.subtree_control)",
        )?;
        // Creates a group, to test that it is permitted, and removes it again.
        controller.group(1 << 30).map(|_| controller)
    }

    /// Creates a group of at most `limit_bytes` bytes of memory and page cache, and no swap.
    ///
    /// # Errors
    /// The reason as text, if the group cannot be created or limited.
    pub fn group(&self, limit_bytes: u64) -> Result<ControlGroup, String> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("terrace-bench-{}-{count}", std::process::id());
        let path = self.parent.join(name);
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        fs::create_dir(&path).map_err(|error| failed(&path, error))?;
        let group = ControlGroup { path, version: self.version };
        let (limit, swap) = match self.version {
            // The limit of memory and swap together cannot be below that of memory.
            Version::One => {
                ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", limit_bytes.to_string()))
            }
            Version::Two => ("memory.max", ("memory.swap.max", "0".to_owned())),
        };
        let limit = group.path.join(limit);
        fs::write(&limit, limit_bytes.to_string()).map_err(|error| failed(&limit, error))?;
        let file = group.path.join(swap.0);
        // Kernels without swap accounting have no such file.
        if file.exists() {
            fs::write(&file, swap.1).map_err(|error| failed(&file, error))?;
        }
        Ok(group)
    }

    /// Returns the name of the interface in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.version {
            Version::One => "cgroup v1",
            Version::Two => "cgroup v2",
        }
    }
}

/// Returns the nearest version 2 group at or above that of this process whose children have the
/// memory controller. A group that contains processes does not delegate controllers to its
/// children, unless it is the root.
fn unified(groups: &str, mounts: &str) -> Option<MemoryController> {
    let mount = mount_point(mounts, |kind, _| kind == "cgroup2")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let hands_on = |group: &&Path| {
        let controllers = fs::read_to_string(group.join("cgroup.subtree_control"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
    };
    let own = mount.join(own);
    let parent = own.ancestors().take_while(|group| group.starts_with(&mount)).find(hands_on)?;
    Some(MemoryController { version: Version::Two, parent: parent.to_path_buf() })
}

/// Returns the group of this process in the version 1 hierarchy that has the controller, or the
/// root of the hierarchy if a container does not show the group.
fn legacy(groups: &str, mounts: &str) -> Option<MemoryController> {
    let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
    let mount = mount_point(mounts, |kind, options| kind == "cgroup" && has_memory(options))?;
    let own = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has_memory(controllers).then(|| path.trim_start_matches('/'))
    })?;
    let own = mount.join(own);
    let parent = if own.exists() { own } else { mount };
    Some(MemoryController { version: Version::One, parent })
}

/// Returns the mount point of the first file system whose type and options `is_it` accepts.
fn mount_point(mounts: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        is_it(kind, options).then(|| PathBuf::from(place))
    })
}

/// A control group, removed on drop. Its processes must have ended by then.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    version: Version,
}

impl ControlGroup {
    /// Returns a command that enters the group and then executes `command`.
    #[must_use]
    pub fn inside(&self, command: &Command) -> Command {
        let mut entering = Command::new("/bin/sh");
        entering.args(["-c", ENTER]).arg(self.path.join("cgroup.procs"));
        entering.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entering.env(name, value),
                None => entering.env_remove(name),
            };
        }
        entering
    }

    /// Returns the peak bytes of memory and page cache; `None` if the kernel does not count them.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    /// Returns the number of processes that the kernel killed because the group was out of memory;
    /// `None` if the kernel does not count them.
    #[must_use]
    pub fn kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.path.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            // A group that cannot be removed is empty, and costs the kernel a few KiB.
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(REMOVE_WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::child;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
         cgroup /groups/cpu cgroup rw,relatime,cpu 0 0\n\
         cgroup /groups/memory cgroup rw,relatime,memory 0 0\n";

    #[test]
    fn the_hierarchy_with_the_controller_is_found() {
        let groups = "5:cpu:/\n4:memory:/not/shown\n0::/\n";
        let found = legacy(groups, MOUNTS).expect("found");
        assert_eq!((found.version, found.parent), (Version::One, "/groups/memory".into()));
        assert!(legacy("5:cpu:/\n0::/\n", MOUNTS).is_none());
        assert!(unified(groups, MOUNTS).is_none());
    }

    #[test]
    fn the_nearest_group_that_hands_the_controller_on_is_found() {
        let root = crate::measure::Scratch::of(None, "groups").expect("made");
        let (slice, own) = (root.path().join("slice"), root.path().join("slice/own"));
        fs::create_dir_all(&own).expect("made");
        fs::write(slice.join("cgroup.subtree_control"), "cpu memory\n").expect("written");
        fs::write(own.join("cgroup.subtree_control"), "\n").expect("written");
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", root.path().display());
        let found = unified("0::/slice/own\n", &mounts).expect("found");
        assert_eq!((found.version, found.parent), (Version::Two, slice.clone()));
        fs::write(slice.join("cgroup.subtree_control"), "cpu\n").expect("written");
        assert!(unified("0::/slice/own\n", &mounts).is_none());
    }

    /// If groups cannot be created, as for users without privileges, the reason is given as text.
    #[tokio::test]
    async fn a_process_that_takes_more_than_its_group_has_ends() {
        let controller = match MemoryController::find() {
            Ok(controller) => controller,
            Err(reason) => return assert!(!reason.is_empty()),
        };
        let group = controller.group(64 << 20).expect("made");
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            group.inside(&command)
        };
        let little = child::output(shell("echo said"), Vec::new(), "it").await;
        assert_eq!(little.expect("ran"), b"said\n");
        let much = shell("head -c 300000000 /dev/zero | tail -c 200000000 > /dev/null");
        let ended = child::output(much, Vec::new(), "it").await;
        assert!(ended.is_err(), "200 MB are more than 64 MiB");
        assert!(group.kills().is_none_or(|kills| kills > 0), "{:?}", group.kills());
        assert!(group.peak_bytes().is_none_or(|bytes| bytes > 32 << 20 && bytes <= 64 << 20));
        let path = group.path.clone();
        drop(group);
        assert!(!path.exists());
    }
}

//! Files and accelerators of this machine.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_core::cluster::{Answer, Environment, host_accelerators, resolve};
use rondo_core::limits::CLUSTER_DOCUMENT_BYTES_MAX;

use super::gpus::{self, Library};

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 65_536;
/// Where the NVIDIA driver tells of its GPUs.
const NVIDIA_GPUS: &str = "/proc/driver/nvidia/gpus";
/// Devices on the PCI bus.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// Google's number there.
const GOOGLE: &str = "0x1ae0";

/// The machine as its files show it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    root: PathBuf,
    pub(super) environment: Environment,
    /// Whose devices they are.
    pub(super) task: Option<(String, u32)>,
    /// Who is asked for GPUs before files are.
    library: Option<Arc<dyn Library>>,
}

impl Machine {
    pub(super) fn new(root: PathBuf, environment: Environment) -> Self {
        // Libraries know this machine, and not the one whose files lie below another root.
        let library = if root == Path::new("/") { gpus::library() } else { None };
        Self { root, environment, task: None, library }
    }

    fn at(&self, path: &str) -> PathBuf {
        if self.root == Path::new("/") {
            return PathBuf::from(path);
        }
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file, `None` if there is none. Of one that is too long so much that it shows.
    pub(super) fn file(&self, path: &str) -> Result<Option<String>, String> {
        let file = match File::open(self.at(path)) {
            Ok(file) => file,
            Err(error) if is_absent(error.kind()) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let most = u64::try_from(CLUSTER_DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|it| it.to_string())?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                Err(format!("is no UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
            }
        }
    }

    /// How many GPUs there are: what the library says; else the driver's device files, which a container has
    /// those of that it may use; else what the driver tells.
    pub(super) fn gpus(&self) -> Result<u32, String> {
        match self.library.as_ref().map(|library| library.count()) {
            Some(Ok(count)) => return Ok(count),
            Some(Err(why)) => tracing::debug!(why, "GPUs are counted by device files"),
            None => {}
        }
        let devices = self.names("/dev")?;
        let is_gpu = |name: &&String| is_numbered(name, "nvidia");
        let count = devices.iter().filter(is_gpu).count();
        let count = if count > 0 { count } else { self.names(NVIDIA_GPUS)?.len() };
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// How many TPU chips there are: device files of their driver, or of VFIO on newer machines, and
    /// Google's devices on the bus.
    fn tpu_chips(&self) -> u32 {
        let numbered = |folder: &str, prefix: &str| {
            let names = self.names(folder).unwrap_or_default();
            names.iter().filter(|name| is_numbered(name, prefix)).count()
        };
        let devices = match numbered("/dev", "accel") {
            0 => numbered("/dev/vfio", ""),
            count => count,
        };
        if devices == 0 {
            return 0;
        }
        let buses = self.names(PCI_DEVICES).unwrap_or_default();
        let is_google = |bus: &String| {
            let vendor = self.file(&format!("{PCI_DEVICES}/{bus}/vendor"));
            vendor.is_ok_and(|text| text.is_some_and(|text| text.trim() == GOOGLE))
        };
        if buses.iter().any(is_google) { u32::try_from(devices).unwrap_or(u32::MAX) } else { 0 }
    }

    /// Whether it is a TPU machine.
    pub(super) fn is_tpu_machine(&self) -> bool {
        let forced = self.environment.get("JAX_FORCE_TPU_INIT").is_some_and(|it| !it.is_empty());
        forced || self.tpu_chips() > 0
    }

    /// Names of the devices that a process here may use.
    pub(super) fn devices(&self) -> Result<Vec<String>, String> {
        let gpus = self.gpus();
        let visible =
            resolve(self.environment.clone(), host_accelerators, |_| Answer::Gpus(gpus.clone()));
        let mut counts = visible.map_err(|error| error.to_string())?;
        let chips = self.tpu_chips();
        if chips > 0 {
            counts.insert("TPU".to_owned(), chips);
        }
        let prefix = match &self.task {
            Some((job, index)) => format!("/job:{job}/task:{index}/device:"),
            None => String::new(),
        };
        let most = u32::try_from(ENTRIES_MAX).unwrap_or(u32::MAX);
        let names = |(kind, count): (&String, &u32)| {
            (0..(*count).min(most)).map(|index| format!("{prefix}{kind}:{index}")).collect()
        };
        Ok(counts.iter().flat_map(|pair| -> Vec<String> { names(pair) }).collect())
    }

    /// Names within a directory, none if there is none.
    fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let entries = match fs::read_dir(self.at(path)) {
            Ok(entries) => entries,
            Err(error) if is_absent(error.kind()) => return Ok(Vec::new()),
            Err(error) => return Err(format!("{path}: {error}")),
        };
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        Ok(entries.take(ENTRIES_MAX).filter_map(|entry| name(entry.ok()?)).collect())
    }
}

const fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether a name is the prefix and a number.
fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn machine(files: &[&str], variables: &[(&str, &str)]) -> (TempDir, Machine) {
        let root = TempDir::new().unwrap();
        for file in files {
            let (path, text) = file.split_once('=').unwrap_or((file, ""));
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let machine = Machine::new(root.path().into(), variables.collect());
        (root, machine)
    }

    #[test]
    fn gpus_are_those_of_the_device_files_else_of_the_driver() {
        assert_eq!(machine(&[], &[]).1.gpus(), Ok(0));
        let files = ["/dev/nvidia0", "/dev/nvidia11", "/dev/nvidiactl", "/dev/nvidia-uvm"];
        assert_eq!(machine(&files, &[]).1.gpus(), Ok(2));
        let files = ["/proc/driver/nvidia/gpus/0000:01:00.0/information", "/dev/nvidiactl"];
        assert_eq!(machine(&files, &[]).1.gpus(), Ok(1));
    }

    #[test]
    fn a_directory_is_read_up_to_its_bound() {
        let (root, machine) = machine(&["/dev/first"], &[]);
        for number in 0..ENTRIES_MAX {
            fs::write(root.path().join(format!("dev/{number}")), "").unwrap();
        }
        assert_eq!(machine.names("/dev").map(|names| names.len()), Ok(65_536));
    }

    /// A library that says so.
    #[derive(Debug)]
    struct Says(Result<u32, String>);

    impl Library for Says {
        fn count(&self) -> Result<u32, String> {
            self.0.clone()
        }
    }

    #[test]
    fn a_library_is_asked_first_and_files_where_it_cannot_tell() {
        let (_root, mut machine) = machine(&["/dev/nvidia0", "/dev/nvidia1"], &[]);
        machine.library = Some(Arc::new(Says(Ok(8))));
        assert_eq!(machine.gpus(), Ok(8));
        assert_eq!(machine.devices().unwrap().len(), 8);
        machine.library = Some(Arc::new(Says(Ok(0))));
        assert_eq!(machine.gpus(), Ok(0), "files of GPUs that are gone");
        machine.library = Some(Arc::new(Says(Err("no library".into()))));
        assert_eq!(machine.gpus(), Ok(2));
    }

    #[test]
    fn devices_are_those_that_the_process_sees_and_of_its_task() {
        let files = ["/dev/nvidia0", "/dev/nvidia1"];
        let (_root, all) = machine(&files, &[]);
        assert_eq!(all.devices().unwrap(), ["GPU:0", "GPU:1"]);
        let (_root, mut one) = machine(&files, &[("CUDA_VISIBLE_DEVICES", "1")]);
        one.task = Some(("worker".into(), 3));
        assert_eq!(one.devices().unwrap(), ["/job:worker/task:3/device:GPU:0"]);
    }

    #[test]
    fn a_tpu_machine_has_chips_of_googles() {
        let vendor = |vendor| format!("/sys/bus/pci/devices/0000:00:04.0/vendor={vendor}\n");
        let of = |files: &[&str]| machine(files, &[]).1.is_tpu_machine();
        assert!(!of(&[&vendor(GOOGLE)]), "a machine of theirs without chips");
        assert!(of(&[&vendor(GOOGLE), "/dev/accel0"]));
        assert!(of(&[&vendor(GOOGLE), "/dev/vfio/vfio", "/dev/vfio/1"]));
        assert!(!of(&[&vendor("0x10de"), "/dev/vfio/1"]), "somebody else's device");
        assert!(machine(&[], &[("JAX_FORCE_TPU_INIT", "1")]).1.is_tpu_machine());
    }

    #[test]
    fn files_that_are_none_and_files_that_are_no_text_differ() {
        let (root, machine) = machine(&["/a/b=text"], &[]);
        assert_eq!(machine.file("/a/b"), Ok(Some("text".into())));
        assert_eq!(machine.file("/a/c"), Ok(None));
        assert_eq!(machine.file("/a/b/c"), Ok(None));
        fs::write(root.path().join("raw"), [b'a', 0xff]).unwrap();
        assert!(machine.file("/raw").unwrap_err().contains("byte 1"));
    }
}

//! A real Slurm of several hosts on one machine: a controller and a daemon for each host, with keys, sockets,
//! ports and state of its own in a folder that goes with it.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launchers::Launchers;
use crate::process::{Ended, Process};

/// How long it may take until all hosts are up.
const START: Duration = Duration::from_secs(60);
/// How long one command may run, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// A port that was free may be taken by the time that it is wanted.
const TRIES: usize = 3;
/// Processors that each host is said to have.
const PROCESSORS: u32 = 4;

/// A running Slurm.
#[derive(Debug)]
pub struct Slurm {
    launchers: &'static Launchers,
    // Processes end before their folder goes.
    daemons: Vec<Process>,
    folder: TempDir,
}

impl Slurm {
    /// Starts one with these hosts, and waits until all are up.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(launchers: &'static Launchers, hosts: &[&str]) -> Self {
        for _ in 1..TRIES {
            if let Ok(slurm) = Self::try_start(launchers, hosts) {
                return slurm;
            }
        }
        Self::try_start(launchers, hosts).unwrap_or_else(|log| panic!("no Slurm comes up: {log}"))
    }

    fn try_start(launchers: &'static Launchers, hosts: &[&str]) -> Result<Self, String> {
        let folder = TempDir::new().expect("a folder for temporary files");
        let mut slurm = Self { launchers, daemons: Vec::new(), folder };
        slurm.configure(hosts);
        slurm.start_munge()?;
        let settings = slurm.path("slurm.conf");
        let mut controller = slurm.command("slurmctld");
        controller.args(["-D", "-i", "-f"]).arg(&settings);
        slurm.daemons.push(Process::start("slurmctld", &mut controller));
        for host in hosts {
            fs::create_dir(slurm.path(&format!("spool-{host}"))).expect("our own folder");
            let mut daemon = slurm.command("slurmd");
            daemon.args(["-D", "-N", host, "-f"]).arg(&settings);
            daemon.arg("-d").arg(launchers.program("slurmstepd"));
            slurm.daemons.push(Process::start(&format!("slurmd of {host}"), &mut daemon));
        }
        slurm.wait_until_idle(hosts.len())?;
        Ok(slurm)
    }

    /// A program of the launchers' that belongs to this Slurm, such as `srun`. It runs in [`Self::folder`].
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.launchers.command(program);
        command.current_dir(self.folder());
        command.env("SLURM_CONF", self.path("slurm.conf"));
        // Open MPI does not start as root unless it is told to, twice.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(name, "1");
        }
        command
    }

    /// Runs a program to its end, within a time.
    ///
    /// # Panics
    /// When it cannot be started or runs on.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        let mut process = Process::start(program, self.command(program).args(arguments));
        process.wait(PATIENCE)
    }

    /// Where programs run and may leave files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Kills what was to look after a step whose controller is gone.
    fn kill_steps(&self) {
        let folder = self.folder().display().to_string();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
            let is_step = String::from_utf8_lossy(&read("comm")).starts_with("slurmstepd");
            if is_step && String::from_utf8_lossy(&read("environ")).contains(&folder) {
                let _ = Command::new("kill").arg("-KILL").arg(entry.file_name()).status();
            }
        }
    }

    fn configure(&self, hosts: &[&str]) {
        fs::create_dir(self.path("state")).expect("our own folder");
        let ports = free_ports(hosts.len() + 1);
        let folder = self.folder().display();
        let machine = machine();
        let user = user();
        let plugins = self.launchers.plugins();
        let mut text = format!(
            "ClusterName=rondo\n\
             SlurmctldHost={machine}(127.0.0.1)\n\
             SlurmctldPort={port}\n\
             SlurmUser={user}\n\
             SlurmdUser={user}\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge.socket\n\
             CredType=cred/munge\n\
             PluginDir={plugins}\n\
             StateSaveLocation={folder}/state\n\
             SlurmdSpoolDir={folder}/spool-%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\n\
             SlurmdPidFile={folder}/slurmd-%n.pid\n\
             ProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\n\
             SwitchType=switch/none\n\
             MpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\n\
             SchedulerType=sched/backfill\n\
             SchedulerParameters=bf_interval=1,sched_interval=1\n\
             SlurmdParameters=config_overrides\n\
             ReturnToService=2\n\
             MailProg=/bin/true\n",
            port = ports[0],
            plugins = plugins.display(),
        );
        for (host, port) in hosts.iter().zip(&ports[1..]) {
            let place = format!("NodeHostname={machine} NodeAddr=127.0.0.1 Port={port}");
            writeln!(text, "NodeName={host} {place} CPUs={PROCESSORS} State=UNKNOWN")
                .expect("text takes text");
        }
        text += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
        fs::write(self.path("slurm.conf"), text).expect("our own file");
    }

    fn start_munge(&mut self) -> Result<(), String> {
        let key = self.path("munge.key");
        let random = fs::read("/proc/sys/kernel/random/uuid").expect("Linux has it");
        fs::write(&key, random).expect("our own file");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our own file");
        let mut munge = self.command("munged");
        // Its folder is nobody else's, which it warns of and would refuse.
        munge.args(["--foreground", "--force"]);
        for (option, file) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munge.arg(format!("{option}={}", self.path(file).display()));
        }
        let process = Process::start("munged", &mut munge);
        let began = Instant::now();
        while !self.path("munge.socket").exists() {
            if began.elapsed() > START {
                return Err(process.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.daemons.push(process);
        Ok(())
    }

    fn wait_until_idle(&self, hosts: usize) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let mut command = self.command("sinfo");
            let output = command.args(["-h", "-N", "-o", "%T"]).output().expect("sinfo runs");
            let states = String::from_utf8_lossy(&output.stdout).into_owned();
            if states.lines().filter(|state| *state == "idle").count() == hosts {
                return Ok(());
            }
            if began.elapsed() > START {
                let logs: Vec<String> = self.daemons.iter().map(Process::log).collect();
                return Err(format!("hosts are {states:?}\n{}", logs.join("\n")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // What still runs would outlive the daemons.
        let user = user();
        let _ = self.command("scancel").args(["--signal=KILL", "--user", &user]).output();
        while let Some(mut daemon) = self.daemons.pop() {
            daemon.kill();
        }
        self.kill_steps();
    }
}

/// Ports that nobody has at the moment.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has ports"))
        .collect();
    listeners.iter().map(|it| it.local_addr().expect("it is bound").port()).collect()
}

/// This machine's name.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// Who runs the tests.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("the system has it");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

//! Kills an embedding program, its servers, their wrappers and the keeper; no process may be left, and the story prints how
//! long the slowest took: below two seconds on a machine that is not overloaded.
//!
//! Processes are found in `/proc` by an environment variable, which is inherited across new parents and sessions. The
//! environment of a keeper is empty; it is found by its arguments, which name its host.
//! `TOOLWAY_TEST_LONG=1` runs all ten waves.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{peers, stage::embedding};

/// A program that embeds the host, with one server of every kind.
struct Embedding {
    token: String,
    process: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    folder: TempDir,
}

/// One run of a test. Dropping it kills all its processes.
struct TestRun(String);

/// How a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Started by a shell that waits for it.
    InShell,
    /// Started by `setsid`, which waits for it.
    InSession,
    /// Started by `setsid`, which exits before the first message.
    Forked,
    /// Started by a Node program, as with `npx`.
    InNode,
    /// Ignores the end of stdin and SIGTERM.
    Stubborn,
}

/// The process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Host,
    Keeper,
    Server(Kind),
    Wrapper(Kind),
}

/// Processes with the variable, and keepers: id and value. That of a keeper is the value of its host.
type Processes = BTreeMap<i32, String>;

const KINDS: [Kind; 6] = [Kind::Plain, Kind::InShell, Kind::InSession, Kind::Forked, Kind::InNode, Kind::Stubborn];
/// Host, keeper, six servers, three wrappers, and one hidden process per server.
const PROCESSES: usize = 1 + 1 + 6 + 3 + 6;
const KILLS_IN_A_WAVE: usize = 20;
/// How long processes that should remain are watched.
const OBSERVATION: Duration = Duration::from_secs(2);
/// Timeout of all other steps.
const TIMEOUT: Duration = Duration::from_secs(30);
const VARIABLE: &str = "TOOLWAY_CHAOS";
/// The arguments of a keeper, before the process id of its host.
const KEEPER: [&str; 2] = ["mcp-keeper", "keep-the-servers-of"];
/// The token of every started host, also after its end.
static HOSTS: Mutex<Processes> = Mutex::new(Processes::new());

/// Starts a hidden process (two forks, its own session, no streams), then serves the protocol.
const SERVER: &str = r#"
(setsid sleep 600 </dev/null >/dev/null 2>&1 &)
echo $$ > "$1"
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"chaos","version":"1"}}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
    esac
done
"#;

#[test]
fn no_process_is_left_after_any_kill() {
    let run = TestRun::new("chaos");
    let waves = if env::var_os("TOOLWAY_TEST_LONG").is_some() { 10 } else { 2 };
    let mut slowest = BTreeMap::new();
    for wave in 0..waves {
        for (victim, took) in run.wave(wave) {
            let victim = victim.split('(').next().unwrap_or_default().to_owned();
            slowest.entry(victim).and_modify(|slowest: &mut Duration| *slowest = took.max(*slowest)).or_insert(took);
        }
    }
    print(&format!("{} kills; the slowest of each: {slowest:?}", waves * KILLS_IN_A_WAVE));
}

#[test]
fn hidden_process_is_left_behind_without_keeper() {
    let run = TestRun::new("leak");
    let token = run.0.as_str();
    let mut embedding = Embedding::start(token, &["--without-keeper"]);
    embedding.dial(Kind::Plain);
    let before = wait_for_processes(token, |counted| counted.len() == 3);
    assert!(before.contains_key(&embedding.pid()), "{before:?}");
    embedding.process.kill().unwrap();
    embedding.process.wait().unwrap();
    thread::sleep(OBSERVATION);
    let left = processes_of(token);
    assert_eq!(left.len(), 1, "without keeper, a process in its own session remains: {left:?}");
    for pid in left.into_keys() {
        signal(pid, Signal::KILL);
    }
    wait_for_processes(token, Processes::is_empty);
}

/// Ends the remaining hosts by closing their stdin.
fn end(mut embeddings: Vec<Embedding>) {
    for embedding in &mut embeddings {
        drop(embedding.input.take());
    }
    for embedding in &mut embeddings {
        embedding.process.wait().unwrap();
    }
    for embedding in &embeddings {
        wait_for_processes(&embedding.token, Processes::is_empty);
    }
}

/// The victim and the signal of each kill: all kinds in turn, with both signals.
fn kill_of(wave: usize, number: usize) -> (Victim, Signal) {
    let turn = wave * (KILLS_IN_A_WAVE / 4) + number / 4;
    let with = if (wave + number / 4).is_multiple_of(2) { Signal::KILL } else { Signal::TERM };
    let wrapped = [Kind::InShell, Kind::InSession, Kind::InNode];
    match (number % 4, KINDS[turn % KINDS.len()]) {
        (0, _) => (Victim::Host, with),
        (1, _) => (Victim::Keeper, with),
        (2, Kind::Stubborn) => (Victim::Server(Kind::Stubborn), Signal::KILL),
        (2, kind) => (Victim::Server(kind), with),
        _ => (Victim::Wrapper(wrapped[turn % wrapped.len()]), with),
    }
}

// === impl TestRun ===

impl TestRun {
    fn new(story: &str) -> Self {
        Self(format!("{story}-{}-", std::process::id()))
    }

    /// Kills twenty processes at once; returns each victim and how long it took until no process was left.
    fn wave(&self, wave: usize) -> Vec<(String, Duration)> {
        let plan: Vec<(Victim, Signal)> = (0..KILLS_IN_A_WAVE).map(|number| kill_of(wave, number)).collect();
        let mut embeddings: Vec<Embedding> =
            (0..plan.len()).map(|number| Embedding::start(&format!("{}{wave}-{number}.", self.0), &[])).collect();
        for embedding in &mut embeddings {
            KINDS.iter().for_each(|kind| embedding.want(*kind));
        }
        for embedding in &embeddings {
            KINDS.iter().for_each(|_| assert_eq!(embedding.next_output()["cleanup"], "full"));
            wait_for_processes(&embedding.token, |counted| counted.len() == PROCESSES);
        }
        let began = Instant::now();
        for (embedding, (victim, with)) in embeddings.iter_mut().zip(&plan) {
            signal(embedding.pid_of(*victim), *with);
        }
        let mut took: Vec<Option<Duration>> = vec![None; plan.len()];
        // A process that should remain is watched for a while, also when all others are gone at once.
        while began.elapsed() < OBSERVATION || (took.contains(&None) && began.elapsed() < TIMEOUT) {
            let all = processes_of(&self.0);
            for ((embedding, (victim, _)), took) in embeddings.iter_mut().zip(&plan).zip(&mut took) {
                *took = if embedding.left(*victim, &all).is_empty() { took.or(Some(began.elapsed())) } else { None };
            }
            thread::sleep(Duration::from_millis(50));
        }
        let all = processes_of(&self.0);
        for (embedding, (victim, with)) in embeddings.iter_mut().zip(&plan) {
            let left = embedding.left(*victim, &all);
            assert!(left.is_empty(), "{victim:?} got {with:?}, and {TIMEOUT:?} later there is {left:?}");
            embedding.check_after(*victim, &all);
        }
        end(embeddings);
        plan.iter().zip(took).map(|((victim, _), took)| (format!("{victim:?}"), took.unwrap_or(TIMEOUT))).collect()
    }
}

impl Drop for TestRun {
    fn drop(&mut self) {
        for pid in processes_of(&self.0).into_keys() {
            drop(kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).map_err(io::Error::from));
        }
    }
}

// === impl Embedding ===

impl Embedding {
    fn start(token: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(embedding());
        command.args(arguments).env_clear().env(VARIABLE, token).env("PATH", peers::search_path());
        command.env("HOME", folder.path()).env("TMPDIR", folder.path());
        // In its own group, so that signals do not reach the test.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        HOSTS.lock().insert(process.id().cast_signed(), token.to_owned());
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let (sender, output_lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { token: token.to_owned(), process, input, output: output_lines, folder }
    }

    /// Requests a server.
    fn want(&mut self, kind: Kind) {
        let variables = json!({ VARIABLE: format!("{}{kind:?}", self.token) });
        let [command, arguments @ ..] = &kind.command_line(&self.pid_file(kind))[..] else { unreachable!() };
        let wanted = json!({ "command": command, "arguments": arguments, "variables": variables });
        writeln!(self.input.as_ref().unwrap(), "{wanted}").unwrap();
    }

    fn dial(&mut self, kind: Kind) -> Value {
        self.want(kind);
        self.next_output()
    }

    /// The next line of its output.
    fn next_output(&self) -> Value {
        self.output.recv_timeout(TIMEOUT).unwrap()
    }

    fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    fn pid_of(&self, victim: Victim) -> i32 {
        match victim {
            Victim::Host => self.pid(),
            Victim::Keeper => {
                let is_keeper = |pid: &i32| parent(*pid) == Some(self.pid());
                processes_of(&self.token).into_keys().find(is_keeper).unwrap()
            }
            Victim::Server(kind) => fs::read_to_string(self.pid_file(kind)).unwrap().trim().parse().unwrap(),
            Victim::Wrapper(kind) => parent(self.pid_of(Victim::Server(kind))).unwrap(),
        }
    }

    /// The processes that should be gone after this kill and are not.
    fn left(&mut self, victim: Victim, all: &Processes) -> Vec<String> {
        let mine = all.iter().filter(|(_, value)| value.starts_with(&self.token));
        let should_be_gone = |(pid, value): &(&i32, &String)| match victim {
            Victim::Host => true,
            Victim::Keeper => **pid != self.process.id().cast_signed(),
            Victim::Server(kind) | Victim::Wrapper(kind) => **value == format!("{}{kind:?}", self.token),
        };
        mine.filter(should_be_gone).map(|(pid, value)| format!("{value} {pid} {}", command_line(*pid))).collect()
    }

    /// Checks that other processes still run, and that the host reports what happened.
    fn check_after(&mut self, victim: Victim, all: &Processes) {
        let mine = all.values().filter(|value| value.starts_with(&self.token)).count();
        match victim {
            Victim::Host => assert_eq!(mine, 0),
            Victim::Keeper => {
                for _ in KINDS {
                    let why = self.next_output()["why"].as_str().unwrap().to_owned();
                    let is_reported = why.contains("the keeper process was killed")
                        || why.contains("the server was killed by signal")
                        || why.contains("the server exited with status");
                    assert!(is_reported, "{why}");
                }
                assert_eq!(zombies_of(self.pid()), 0);
                assert_eq!(self.dial(Kind::InShell)["cleanup"], "full");
            }
            Victim::Server(kind) | Victim::Wrapper(kind) => {
                let gone = if kind.is_wrapped() { 3 } else { 2 };
                assert_eq!(mine, PROCESSES - gone, "{victim:?}: {all:?}");
                assert_eq!(self.next_output()["ended"], KINDS.iter().position(|other| *other == kind).unwrap());
            }
        }
    }

    fn pid_file(&self, kind: Kind) -> String {
        self.folder.path().join(format!("{kind:?}")).to_str().unwrap().to_owned()
    }
}

// === impl Kind ===

impl Kind {
    fn command_line(self, pid_file: &str) -> Vec<String> {
        let wrapped = "sh -c \"$0\" sh \"$1\"; exit $?";
        let node = "require('child_process').spawn('sh', ['-c', process.argv[1], 'sh', process.argv[2]], \
                    { stdio: 'inherit' }).on('exit', code => process.exit(code))";
        let stubborn = format!("trap '' TERM HUP INT\n{SERVER}\nwhile :; do sleep 1; done");
        let arguments: &[&str] = match self {
            Self::Plain => &["sh", "-c", SERVER, "sh", pid_file],
            Self::InShell => &["sh", "-c", wrapped, SERVER, pid_file],
            Self::InSession => &["setsid", "-w", "sh", "-c", SERVER, "sh", pid_file],
            Self::Forked => &["setsid", "sh", "-c", SERVER, "sh", pid_file],
            Self::InNode => &["node", "-e", node, SERVER, pid_file],
            Self::Stubborn => &["sh", "-c", &stubborn, "sh", pid_file],
        };
        arguments.iter().map(|argument| (*argument).to_owned()).collect()
    }

    fn is_wrapped(self) -> bool {
        matches!(self, Self::InShell | Self::InSession | Self::InNode)
    }
}

/// All processes whose value begins with `token`.
fn processes_of(token: &str) -> Processes {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let value = variable_of(pid).or_else(|| HOSTS.lock().get(&host_of_keeper(pid)?).cloned())?;
        value.starts_with(token).then_some((pid, value))
    })
    .collect()
}

fn variable_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let entry = str::from_utf8(entry).ok()?;
        Some(entry.strip_prefix(VARIABLE)?.strip_prefix('=')?.to_owned())
    })
}

/// The host of a process, if the process is a keeper.
fn host_of_keeper(pid: i32) -> Option<i32> {
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = arguments.split('\0');
    let is_keeper = arguments.by_ref().take(KEEPER.len()).eq(KEEPER);
    is_keeper.then(|| arguments.next()?.parse().ok())?
}

fn wait_for_processes(token: &str, is_reached: impl Fn(&Processes) -> bool) -> Processes {
    let began = Instant::now();
    loop {
        let counted = processes_of(token);
        if is_reached(&counted) {
            return counted;
        }
        assert!(began.elapsed() < TIMEOUT, "there are still {counted:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The state of a process, and its parent.
fn stat(pid: i32) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Ended children of a process that are not reaped.
fn zombies_of(parent: i32) -> usize {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(state, of)| state == "Z" && of == parent)).count()
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").chars().take(60).collect()
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[expect(clippy::print_stderr, reason = "figures for manual runs")]
fn print(figures: &str) {
    eprintln!("{figures}");
}

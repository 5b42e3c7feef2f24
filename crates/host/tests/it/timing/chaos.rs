//! Waves of kills: of a program that embeds the host, of its servers, of what wraps them, of the keeper; and nothing
//! that was started is left two seconds later.
//!
//! Who descends from whom is counted from `/proc` by a variable in the environment of every process, which no new
//! parent and no new session takes away. `TOOLWAY_TEST_LONG=1` tells all ten waves.

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

/// One telling of a story. Whatever becomes of it, nothing of it stays on this machine.
struct Telling(String);

/// How a server is started, and how it hides what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Behind a shell that waits for it.
    InShell,
    /// Behind `setsid`, which waits for it.
    InSession,
    /// Behind `setsid`, which does not: the process that was started is gone before the first message.
    Forked,
    /// Behind a Node program, as `npx` does it.
    InNode,
    /// Stays when its input ends, and when it is asked to leave.
    Stubborn,
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Host,
    Keeper,
    Server(Kind),
    Wrapper(Kind),
}

/// Every process with the variable: its number, and what the variable says.
type Counted = BTreeMap<i32, String>;

const KINDS: [Kind; 6] = [Kind::Plain, Kind::InShell, Kind::InSession, Kind::Forked, Kind::InNode, Kind::Stubborn];
/// Host, keeper, six servers, three wrappers, and what each server has hidden.
const PROCESSES: usize = 1 + 1 + 6 + 3 + 6;
const KILLS_IN_A_WAVE: usize = 20;
/// Nothing is left after this.
const LIMIT: Duration = Duration::from_secs(2);
/// For what is no part of the story.
const PATIENCE: Duration = Duration::from_secs(30);
const VARIABLE: &str = "TOOLWAY_CHAOS";

/// Hides a process of its own (two forks, a session of its own, no streams), then speaks the protocol.
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
fn nothing_is_left_two_seconds_after_any_kill() {
    let telling = Telling::new("chaos");
    let waves = if env::var_os("TOOLWAY_TEST_LONG").is_some() { 10 } else { 2 };
    let mut slowest = BTreeMap::new();
    for wave in 0..waves {
        for (victim, took) in telling.wave(wave) {
            let victim = victim.split('(').next().unwrap_or_default().to_owned();
            slowest.entry(victim).and_modify(|slowest: &mut Duration| *slowest = took.max(*slowest)).or_insert(took);
        }
    }
    print(&format!("{} kills; the slowest of each: {slowest:?}", waves * KILLS_IN_A_WAVE));
}

#[test]
fn the_count_sees_what_is_left_behind_where_nobody_keeps() {
    let telling = Telling::new("leak");
    let token = telling.0.as_str();
    let mut embedding = Embedding::start(token, &["--without-keeper"]);
    embedding.dial(Kind::Plain);
    let before = counted_until(token, |counted| counted.len() == 3);
    assert!(before.contains_key(&embedding.pid()), "{before:?}");
    embedding.process.kill().unwrap();
    embedding.process.wait().unwrap();
    thread::sleep(LIMIT);
    let left = counted(token);
    assert_eq!(left.len(), 1, "what hides in a session of its own stays where there is no keeper: {left:?}");
    for pid in left.into_keys() {
        signal(pid, Signal::KILL);
    }
    counted_until(token, Counted::is_empty);
}

/// The hosts that are still there leave as a command does that has its answer.
fn end(mut embeddings: Vec<Embedding>) {
    for embedding in &mut embeddings {
        drop(embedding.input.take());
    }
    for embedding in &mut embeddings {
        embedding.process.wait().unwrap();
    }
    let began = Instant::now();
    for embedding in &embeddings {
        counted_until(&embedding.token, Counted::is_empty);
    }
    assert!(began.elapsed() < LIMIT, "what was kept is gone soon after its host: {:?}", began.elapsed());
}

/// Everybody gets their turn, with either signal.
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

// === impl Telling ===

impl Telling {
    fn new(story: &str) -> Self {
        Self(format!("{story}-{}-", std::process::id()))
    }

    /// Kills twenty times at once; for each kill, whom, and how long it took until nothing was left.
    fn wave(&self, wave: usize) -> Vec<(String, Duration)> {
        let plan: Vec<(Victim, Signal)> = (0..KILLS_IN_A_WAVE).map(|number| kill_of(wave, number)).collect();
        let mut embeddings: Vec<Embedding> =
            (0..plan.len()).map(|number| Embedding::start(&format!("{}{wave}-{number}.", self.0), &[])).collect();
        for embedding in &mut embeddings {
            KINDS.iter().for_each(|kind| embedding.want(*kind));
        }
        for embedding in &embeddings {
            KINDS.iter().for_each(|_| assert_eq!(embedding.says()["custody"], "kept"));
            counted_until(&embedding.token, |counted| counted.len() == PROCESSES);
        }
        let began = Instant::now();
        for (embedding, (victim, with)) in embeddings.iter_mut().zip(&plan) {
            signal(embedding.pid_of(*victim), *with);
        }
        let mut took: Vec<Option<Duration>> = vec![None; plan.len()];
        while began.elapsed() < LIMIT {
            let all = counted(&self.0);
            for ((embedding, (victim, _)), took) in embeddings.iter_mut().zip(&plan).zip(&mut took) {
                *took = if embedding.left(*victim, &all).is_empty() { took.or(Some(began.elapsed())) } else { None };
            }
            thread::sleep(Duration::from_millis(50));
        }
        let all = counted(&self.0);
        for (embedding, (victim, with)) in embeddings.iter_mut().zip(&plan) {
            let left = embedding.left(*victim, &all);
            assert!(left.is_empty(), "{victim:?} got {with:?}, and {LIMIT:?} later there is {left:?}");
            embedding.goes_on_after(*victim, &all);
        }
        end(embeddings);
        plan.iter().zip(took).map(|((victim, _), took)| (format!("{victim:?}"), took.unwrap_or(LIMIT))).collect()
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        for pid in counted(&self.0).into_keys() {
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
        // Nothing that is killed here can take the story along.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let (heard, said) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if heard.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { token: token.to_owned(), process, input, output: said, folder }
    }

    /// Asks for a server.
    fn want(&mut self, kind: Kind) {
        let variables = json!({ VARIABLE: format!("{}{kind:?}", self.token) });
        let [command, arguments @ ..] = &kind.command_line(&self.pid_file(kind))[..] else { unreachable!() };
        let wanted = json!({ "command": command, "arguments": arguments, "variables": variables });
        writeln!(self.input.as_ref().unwrap(), "{wanted}").unwrap();
    }

    fn dial(&mut self, kind: Kind) -> Value {
        self.want(kind);
        self.says()
    }

    /// The next thing it says.
    fn says(&self) -> Value {
        self.output.recv_timeout(PATIENCE).unwrap()
    }

    fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    fn pid_of(&self, victim: Victim) -> i32 {
        match victim {
            Victim::Host => self.pid(),
            Victim::Keeper => {
                let is_keeper = |pid: &i32| parent(*pid) == Some(self.pid());
                counted(&self.token).into_keys().find(is_keeper).unwrap()
            }
            Victim::Server(kind) => fs::read_to_string(self.pid_file(kind)).unwrap().trim().parse().unwrap(),
            Victim::Wrapper(kind) => parent(self.pid_of(Victim::Server(kind))).unwrap(),
        }
    }

    /// What should be gone after this kill and is not.
    fn left(&mut self, victim: Victim, all: &Counted) -> Vec<String> {
        let mine = all.iter().filter(|(_, value)| value.starts_with(&self.token));
        let should_be_gone = |(pid, value): &(&i32, &String)| match victim {
            Victim::Host => true,
            Victim::Keeper => **pid != self.process.id().cast_signed(),
            Victim::Server(kind) | Victim::Wrapper(kind) => **value == format!("{}{kind:?}", self.token),
        };
        mine.filter(should_be_gone).map(|(pid, value)| format!("{value} {pid} {}", command_line(*pid))).collect()
    }

    /// Whoever was not meant is still there, and the host knows what happened.
    fn goes_on_after(&mut self, victim: Victim, all: &Counted) {
        let mine = all.values().filter(|value| value.starts_with(&self.token)).count();
        match victim {
            Victim::Host => assert_eq!(mine, 0),
            Victim::Keeper => {
                for _ in KINDS {
                    let why = self.says()["why"].as_str().unwrap().to_owned();
                    let is_told = why.contains("its keeper was killed")
                        || why.contains("it was ended by signal")
                        || why.contains("it exited with status");
                    assert!(is_told, "{why}");
                }
                assert_eq!(zombies_of(self.pid()), 0);
                assert_eq!(self.dial(Kind::InShell)["custody"], "kept");
            }
            Victim::Server(kind) | Victim::Wrapper(kind) => {
                let gone = if kind.is_wrapped() { 3 } else { 2 };
                assert_eq!(mine, PROCESSES - gone, "{victim:?}: {all:?}");
                assert_eq!(self.says()["ended"], KINDS.iter().position(|other| *other == kind).unwrap());
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
        let words: &[&str] = match self {
            Self::Plain => &["sh", "-c", SERVER, "sh", pid_file],
            Self::InShell => &["sh", "-c", wrapped, SERVER, pid_file],
            Self::InSession => &["setsid", "-w", "sh", "-c", SERVER, "sh", pid_file],
            Self::Forked => &["setsid", "sh", "-c", SERVER, "sh", pid_file],
            Self::InNode => &["node", "-e", node, SERVER, pid_file],
            Self::Stubborn => &["sh", "-c", &stubborn, "sh", pid_file],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn is_wrapped(self) -> bool {
        matches!(self, Self::InShell | Self::InSession | Self::InNode)
    }
}

/// Every process whose variable begins like this.
fn counted(token: &str) -> Counted {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let value = environment.split(|byte| *byte == 0).find_map(|entry| {
            let entry = str::from_utf8(entry).ok()?;
            entry.strip_prefix(VARIABLE)?.strip_prefix('=')
        })?;
        value.starts_with(token).then(|| (pid, value.to_owned()))
    })
    .collect()
}

fn counted_until(token: &str, is_reached: impl Fn(&Counted) -> bool) -> Counted {
    let began = Instant::now();
    loop {
        let counted = counted(token);
        if is_reached(&counted) {
            return counted;
        }
        assert!(began.elapsed() < PATIENCE, "there are still {counted:?}");
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

/// Children of a process that have ended and were not seen to.
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

#[expect(clippy::print_stderr, reason = "figures for whoever runs this alone")]
fn print(figures: &str) {
    eprintln!("{figures}");
}

//! `toolway doctor`: starts each server, looks at what comes of it, and says what to do.

use serde_json::{Value, json};
use toolway_config::{Config, Environment, server::Transport, show::show as show_config};
use toolway_host::{
    connection::{Lists, Phase, ServerStatus, environment},
    keeper::Custody,
    whose_move::WhoseMove,
};

use super::ping;
use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::{Patience, Seen},
    output::{Format, Output},
    report::{Report, sentence},
    server_view,
    target::Target,
    unused::{Unused, Why},
    wiring,
};

/// Start each server, say what comes of it, and what to do
///
/// Of each: the command with the names of its variables or the address, the revision it speaks, how long it took to
/// connect and to say what it has, how its program ended and what that said last on standard error. Each is given as
/// long as its entry says (`timeouts`, 30 seconds unless said), or --timeout. What stands in the files and is not used
/// is named with the reason. The exit code is 0 where all are well and 4 where one is not, or where an entry or a
/// project's file has to be put right.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The servers; all where none is given
    servers: Vec<String>,
}

/// Lines of standard error that are shown.
const TAIL: usize = 10;

const EXAMPLES: &str = "\
Examples:
  toolway doctor
  toolway doctor files
  toolway doctor --stdio 'npx -y @modelcontextprotocol/server-everything'
  toolway doctor -o json | jq '.servers[] | {name, state, advice}'";

pub(crate) async fn run(args: &DoctorArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let (targets, unused) = app.looked_at(&args.servers, output)?;
    // Connecting has its clock, and what is listed then has as long again.
    let slowest = targets.iter().map(|target| target.server.connect).max().unwrap_or_default();
    let gathering = app.gather(targets, Lists::Once, Patience::Whole(2 * slowest), output).await?;
    let findings: Vec<Finding<'_>> = gathering.seen.iter().map(|seen| Finding::of(seen, app)).collect();
    show(&findings, &unused, output);
    let broken = unused.iter().filter(|unused| unused.why == Why::Broken).count();
    let ill = broken + findings.iter().filter(|finding| finding.seen.problem().is_some()).count();
    wiring::leave(&gathering.host).await;
    match ill {
        0 => Ok(ExitCode::Ok),
        1 => Err(Report::new(ExitCode::Unreachable, "unwell", "One server is not well.")),
        many => Err(Report::new(ExitCode::Unreachable, "unwell", format!("{many} servers are not well."))),
    }
}

/// What is known of one server.
struct Finding<'a> {
    seen: &'a Seen,
    /// What is started or dialled, secrets masked.
    reached: String,
    /// The names of what its program sees of the environment.
    environment: Vec<String>,
    advice: String,
}

impl<'a> Finding<'a> {
    fn of(seen: &'a Seen, app: &App) -> Self {
        let environment = names_of_environment(&seen.target, &app.environment);
        Self { seen, reached: reached(&seen.target, &seen.status), environment, advice: advice(seen) }
    }

    fn object(&self) -> Value {
        let mut object = server_view::object(self.seen);
        object.insert("command".to_owned(), json!(self.reached));
        object.insert("environment".to_owned(), json!(self.environment));
        match &self.seen.status.custody {
            Some(Custody::Kept) => drop(object.insert("custody".to_owned(), json!("kept"))),
            Some(Custody::Weaker { why }) => {
                object.insert("custody".to_owned(), json!("weaker"));
                object.insert("custodyReason".to_owned(), json!(why));
            }
            None => {}
        }
        object.insert("advice".to_owned(), json!(self.advice));
        Value::Object(object)
    }

    fn tell(&self, output: &mut Output) {
        let (seen, status) = (self.seen, &self.seen.status);
        output.entry(status.server.as_str(), &format!("  {}", server_view::state(seen)));
        output.line(&format!("    reached by     {}", self.reached));
        output.line(&format!("    written in     {}", status.source));
        if !self.environment.is_empty() {
            output.line(&format!("    environment    {}", self.environment.join(", ")));
        }
        if let Some(profile) = &status.profile {
            output.line(&format!("    speaks         {} ({})", profile.revision, profile.era));
        }
        let time = |time: std::time::Duration| format!("{:.0} ms", time.as_secs_f64() * 1_000.0);
        let times = [
            seen.connected.map(|taken| format!("connected in {}", time(taken))).filter(|_| status.profile.is_some()),
            seen.listed.map(|taken| format!("listed in {}", time(taken))),
        ];
        let times: Vec<String> = times.into_iter().flatten().collect();
        if !times.is_empty() {
            output.line(&format!("    timing         {}", times.join(", ")));
        }
        if let Some(counted) = server_view::counted(seen) {
            output.line(&format!("    offers         {counted}"));
        }
        if let Some(problem) = seen.problem() {
            output.line(&format!("    problem        {problem}"));
        }
        if let (Phase::Ready, Some(custody)) = (&status.phase, &status.custody) {
            output.line(&format!("    custody        {}", ping::in_words(custody)));
        }
        if seen.problem().is_some() {
            let tail = server_view::tail(seen, TAIL).iter();
            tail.for_each(|line| output.line(&format!("    standard error {line}")));
        }
        output.line(&format!("    what to do     {}", self.advice));
    }
}

fn show(findings: &[Finding<'_>], unused: &[Unused], output: &mut Output) {
    match output.format {
        Format::Json | Format::Ndjson => {
            server_view::print(findings.iter().map(Finding::object).collect(), unused, output);
        }
        Format::Raw => {
            let asked = findings.iter().map(|finding| (finding.seen.status.server.to_string(), finding.advice.clone()));
            let unused = unused.iter().map(|unused| (unused.title(), unused.advice()));
            let lines = asked.chain(unused).map(|(name, advice)| format!("{name}\t{advice}\n"));
            lines.for_each(|line| output.content(line.as_bytes()));
        }
        Format::Human => {
            findings.iter().for_each(|finding| finding.tell(output));
            unused.iter().for_each(|unused| tell_unused(unused, output));
        }
    }
}

fn tell_unused(unused: &Unused, output: &mut Output) {
    output.entry(&unused.title(), &format!("  {}", unused.state()));
    output.line(&format!("    written in     {}", unused.place()));
    output.line(&format!("    problem        {}", unused.reason));
    output.line(&format!("    what to do     {}", unused.advice()));
}

/// The command and its arguments as they are written, or the address; what looks like a secret is masked.
fn reached(target: &Target, status: &ServerStatus) -> String {
    let Some(entry) = &target.entry else { return status.target.clone() };
    let config = Config { servers: [(entry.name.clone(), entry.clone())].into(), ..Config::default() };
    let values = show_config(&config);
    let value = |key: &str| {
        let is_it = |shown: &&toolway_config::show::ShownValue| shown.key.rsplit('.').next() == Some(key);
        values.iter().find(is_it).map(|shown| &shown.value)
    };
    let arguments = value("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let words = value("command").into_iter().chain(&arguments).filter_map(Value::as_str);
    let words: Vec<_> = words.map(|word| shlex::try_quote(word).unwrap_or_default()).collect();
    if words.is_empty() { status.target.clone() } else { words.join(" ") }
}

fn names_of_environment(target: &Target, ours: &Environment) -> Vec<String> {
    let named: Environment = match target.entry.as_ref().map(|entry| &entry.transport) {
        Some(Transport::Process(process)) => {
            process.variables.iter().map(|(name, _)| (name.into(), "".into())).collect()
        }
        Some(Transport::Http(_)) => return Vec::new(),
        None if target.is_program() => Environment::new(),
        None => return Vec::new(),
    };
    environment::of_server(ours, &named).keys().map(|name| name.to_string_lossy().into_owned()).collect()
}

/// One sentence on what to do.
fn advice(seen: &Seen) -> String {
    let status = &seen.status;
    let place = &status.source;
    if status.phase == Phase::Disabled {
        return format!("Nothing; it is disabled in {place}.");
    }
    if seen.problem().is_none() {
        return "Nothing; it is well.".to_owned();
    }
    let Some(error) = &status.last_error else {
        return format!("Give it more time with `timeouts.connect` in {place}, or look at what it waits for.");
    };
    match (error.code, error.whose_move) {
        ("config", _) => format!("Put its entry right: {place}."),
        ("unauthorized", _) if seen.target.is_signed_in_to() => sentence(&error.message),
        ("unauthorized", _) => seen.target.what_it_lacks(),
        ("unreachable", _) if seen.target.is_program() => {
            format!("Install the program, or put `command` in {place} right; a full path is safest.")
        }
        ("unreachable", _) => format!("See whether the address in {place} is right and something listens there."),
        ("no_token", _) => {
            "Nothing, if whoever signs people in is away for a moment: it is tried again. Else see where `oauth` of its \
             entry leads."
                .to_owned()
        }
        ("vault", _) => "See to where credentials are kept; `toolway auth status` says where that is.".to_owned(),
        ("timed_out", _) => format!(
            "Run its command by hand and see what it waits for; give it more time with `timeouts.connect` in {place}."
        ),
        ("ended", _) => "Run its command by hand; what it says on standard error is the reason.".to_owned(),
        ("http_status" | "redirect", _) => format!("See whether the address in {place} is the one of an MCP server."),
        (_, WhoseMove::Operator) => format!("Put its entry right: {place}."),
        _ => {
            "Tell the people behind the server: it breaks the protocol. `toolway rpc -v` shows each message.".to_owned()
        }
    }
}

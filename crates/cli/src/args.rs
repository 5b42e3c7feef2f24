//! The top level of the command line: global options and the list of commands.

use std::{convert::Infallible, ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use toolway_config::{Prefix, Secret, layers::Flags, server::Start};

use crate::{
    commands::{
        assistants::AssistantsArgs,
        audit::AuditArgs,
        auth::AuthArgs,
        call::CallArgs,
        calls::CallsArgs,
        chat::ChatArgs,
        clients::ClientsArgs,
        complete::CompleteArgs,
        completions::{CandidatesArgs, CompletionsArgs},
        config::ConfigArgs,
        console::ConsoleArgs,
        demo::DemoArgs,
        doctor::DoctorArgs,
        history::HistoryArgs,
        import::ImportArgs,
        inbox::InboxArgs,
        login::LoginArgs,
        logout::LogoutArgs,
        man::{ManArgs, ReferenceArgs},
        models::ModelsArgs,
        ping::PingArgs,
        policy::PolicyArgs,
        prompts::PromptsArgs,
        resources::ResourcesArgs,
        roots::RootsArgs,
        rpc::RpcArgs,
        run::RunArgs,
        sample::SampleArgs,
        secret::SecretArgs,
        serve::ServeArgs,
        servers::ServersArgs,
        status::StatusArgs,
        store::StoreArgs,
        tasks::TasksArgs,
        tools::ToolsArgs,
        trust::TrustArgs,
    },
    logging::{AccessLogChoice, LogArgs},
    output::Format,
};

/// One binary to list, call, debug and serve all your MCP servers, and to let a model use them safely
///
/// Configure servers under `mcpServers` in toolway.json, or give one on the command line with --stdio or --url. Results go
/// to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "toolway", version, arg_required_else_help = true, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  toolway demo                                           A tour with an embedded server; needs no setup
  toolway tools --stdio 'npx -y @modelcontextprotocol/server-everything'
  toolway call --url https://example.com/mcp search query=rust limit=5
  toolway call files.read_file path=notes.txt            `files` is in toolway.json
  toolway @files call read_file path=notes.txt           The same

Exit codes: 0 ok, 1 internal, 2 usage, 3 authorization required, 4 unreachable or timed out,
5 tool error, 6 user input required, 7 refused by policy, 8 protocol error, 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Tools(ToolsArgs),
    Call(CallArgs),
    Resources(ResourcesArgs),
    Prompts(PromptsArgs),
    Complete(CompleteArgs),
    Ping(PingArgs),
    Rpc(RpcArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    Servers(ServersArgs),
    Serve(ServeArgs),
    Console(ConsoleArgs),
    Clients(ClientsArgs),
    Login(LoginArgs),
    Logout(LogoutArgs),
    Auth(AuthArgs),
    Secret(SecretArgs),
    Import(ImportArgs),
    Config(ConfigArgs),
    Chat(ChatArgs),
    Run(RunArgs),
    History(HistoryArgs),
    Models(ModelsArgs),
    Assistants(AssistantsArgs),
    Inbox(InboxArgs),
    Calls(CallsArgs),
    Tasks(TasksArgs),
    Audit(AuditArgs),
    Policy(PolicyArgs),
    Trust(TrustArgs),
    Roots(RootsArgs),
    Store(StoreArgs),
    Sample(SampleArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    Reference(ReferenceArgs),
    #[command(hide = true, name = "__complete")]
    Candidates(CandidatesArgs),
}

/// Options that select a server and configure the connection to it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ReachArgs {
    /// Run this command as a stdio server; it is split into words like in a shell, but no shell runs
    #[arg(long, global = true, value_name = "COMMAND", value_parser = secret, num_args = 0..=1, default_missing_value = "")]
    pub(crate) stdio: Option<Secret>,

    /// Set an environment variable of the --stdio server, or pass on your own with `--env NAME`; repeatable
    #[arg(long, global = true, value_name = "NAME=VALUE", value_parser = secret)]
    pub(crate) env: Vec<Secret>,

    /// Run the --stdio server in this directory
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,

    /// Connect to the HTTP server at this URL
    #[arg(long, global = true, value_name = "URL", value_parser = secret)]
    pub(crate) url: Option<Secret>,

    /// Allow an http URL of another machine in --url; it is not encrypted
    #[arg(long, global = true)]
    pub(crate) allow_insecure_http: bool,

    /// Send this header to the --url server; repeatable
    #[arg(long, global = true, value_name = "NAME: VALUE", value_parser = secret)]
    pub(crate) header: Vec<Secret>,

    /// Use this configured server; `@NAME` before the command means the same
    #[arg(long = "server", global = true, value_name = "NAME")]
    pub(crate) by_name: Option<String>,

    /// Use the sign-ins of this profile, if you have several accounts at a server
    #[arg(long, global = true, value_name = "NAME", value_parser = profile)]
    pub(crate) profile: Option<String>,

    /// Read this file instead of your user configuration (toolway.json)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Tell servers to work in this folder, as a root; repeatable, besides `roots` of the configuration
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) root: Vec<PathBuf>,

    /// Use only one era of the protocol
    #[arg(long, global = true, value_enum, default_value_t = EraArg::Auto)]
    pub(crate) era: EraArg,

    /// Give up after this many seconds in total
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Connect servers at startup; `false` connects each on first use [env: TOOLWAY_AUTO_CONNECT]
    #[arg(long, global = true, value_name = "BOOL", action = ArgAction::Set)]
    pub(crate) auto_connect: Option<bool>,

    /// When to prefix public names with the server name [env: TOOLWAY_NAMING_PREFIX]
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) prefix: Option<PrefixArg>,

    /// Record nothing on disk; records are kept in memory until the command ends
    #[arg(long, global = true)]
    pub(crate) no_store: bool,
}

/// Options that control the output.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Output format [env: TOOLWAY_OUTPUT] [default: human]
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// Print every protocol message and a summary of each call to standard error, with secrets masked; `doctor` and `status`
    /// show more about each server instead
    #[arg(long, short, global = true, action = ArgAction::SetTrue)]
    pub(crate) verbose: bool,

    /// Write every protocol message to this new file as a JSON line, with times and sizes, secrets masked, and a summary by
    /// method at the end; only you can read it
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) export: Option<PathBuf>,
}

impl Command {
    /// The access log of the command.
    pub(crate) fn access_log(&self) -> AccessLogChoice {
        match self {
            Self::Serve(args) => args.access_log(),
            Self::Console(_) => AccessLogChoice::Written(None),
            _ => AccessLogChoice::None,
        }
    }
}

impl ReachArgs {
    /// The settings for all servers that the command line overrides.
    pub(crate) fn flags(&self) -> Flags {
        let start = |connect| if connect { Start::AtOnce } else { Start::WhenNeeded };
        let prefix = |prefix| match prefix {
            PrefixArg::Always => Prefix::Always,
            PrefixArg::Auto => Prefix::Auto,
            PrefixArg::Never => Prefix::Never,
        };
        Flags { start: self.auto_connect.map(start), request_timeout: self.timeout, prefix: self.prefix.map(prefix) }
    }

    /// Whether none of `--stdio`, `--url` and `--server` is given.
    pub(crate) fn names_no_server(&self) -> bool {
        self.stdio.is_none() && self.url.is_none() && self.by_name.is_none()
    }
}

/// The protocol era to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraArg {
    /// Probe the server and remember the result
    Auto,
    /// With a session: 2024-11-05 to 2025-11-25
    Legacy,
    /// Without a session: 2026-07-28
    Modern,
}

/// When public names are prefixed with the server name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrefixArg {
    /// Always, so that adding a server renames nothing
    Always,
    /// Only if two names would be the same
    Auto,
    /// Never; of two items with the same name only the first is offered
    Never,
}

/// Options whose value is the next argument.
const OPTIONS_WITH_VALUE: [&str; 19] = [
    "--stdio",
    "--env",
    "--cwd",
    "--url",
    "--header",
    "--server",
    "--profile",
    "--config",
    "--root",
    "--era",
    "--timeout",
    "--auto-connect",
    "--prefix",
    "--output",
    "--export",
    "--log-level",
    "--log-format",
    "--log-file",
    "-o",
];

/// Replaces `@server` before the command by `--server=server`.
pub(crate) fn expand_at(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut expanded = Vec::new();
    let mut words = words.into_iter();
    expanded.extend(words.next());
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        if let Some(server) = text.strip_prefix('@').filter(|server| !server.is_empty()) {
            expanded.push(format!("--server={server}").into());
            break;
        }
        let (is_option, takes_next) = (text.starts_with('-'), OPTIONS_WITH_VALUE.contains(&text));
        expanded.push(word);
        match (is_option, takes_next) {
            (true, true) => expanded.extend(words.next()),
            (true, false) => {}
            (false, _) => break,
        }
    }
    expanded.extend(words);
    expanded
}

/// Keeps the value as a secret, because it may contain a key.
#[expect(clippy::unnecessary_wraps, reason = "a parser of the command line can fail")]
fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

/// Accepts a name that is safe in a command line and in a file name.
fn profile(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Err("must be 1 to 64 letters, digits, `.`, `_` or `-`".to_owned())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    let limit = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if limit.is_zero() { Err("must be greater than zero".to_owned()) } else { Ok(limit) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Args, OPTIONS_WITH_VALUE, expand_at};

    #[test]
    fn command_definition_is_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_with_a_value_are_complete() {
        let command = Args::command();
        let takes = |option: &&clap::Arg| !option.is_positional() && option.get_action().takes_values();
        let long = command.get_arguments().filter(takes).filter_map(|option| Some(format!("--{}", option.get_long()?)));
        let short =
            command.get_arguments().filter(takes).filter_map(|option| Some(format!("-{}", option.get_short()?)));
        assert_eq!(long.chain(short).collect::<Vec<_>>(), OPTIONS_WITH_VALUE);
    }

    #[test]
    fn at_server_before_the_command_becomes_an_option() {
        let expanded = |line: &str| {
            let words = expand_at(line.split(' ').map(Into::into));
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(expanded("toolway @files call read path=@x"), "toolway --server=files call read path=@x");
        assert_eq!(expanded("toolway -o json @files tools"), "toolway -o json --server=files tools");
        assert_eq!(expanded("toolway --output=json @files tools"), "toolway --output=json --server=files tools");
        assert_eq!(expanded("toolway call echo @x"), "toolway call echo @x");
        assert_eq!(expanded("toolway"), "toolway");
    }
}

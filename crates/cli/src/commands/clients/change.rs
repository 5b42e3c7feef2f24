//! `toolway clients rotate` and `update`: a new key for a client, or other rights for its key.

use std::time::Duration;

use serde_json::json;
use toolway_config::ToolPattern;
use toolway_gateway::access::{Change, KeyFile, KeyUpdate};
use toolway_host::record::kind;
use toolway_wire::json::Raw;

use super::{GatewayKeys, list, parse_lifetime};
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

#[derive(Debug, clap::Args)]
pub(super) struct RotateArgs {
    /// The client
    name: String,

    /// How long the key before is accepted, e.g. `1h` [default: it is refused at once]
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    overlap: Option<Duration>,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("changes").required(true).multiple(true)))]
pub(super) struct UpdateArgs {
    /// The client
    name: String,

    /// The servers that it can use, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', group = "changes", conflicts_with = "all_servers")]
    servers: Vec<String>,

    /// All servers
    #[arg(long, group = "changes")]
    all_servers: bool,

    /// The tools that it can use, e.g. `files.read_*`, separated by commas
    #[arg(long, value_name = "SERVER.TOOL", value_delimiter = ',', group = "changes", conflicts_with = "all_tools")]
    tools: Vec<ToolPattern>,

    /// All tools of its servers
    #[arg(long, group = "changes")]
    all_tools: bool,

    /// Lifetime of its key from now on, e.g. `12h` or `90d`
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime, group = "changes")]
    expires: Option<Duration>,
}

pub(super) async fn rotate(
    args: &RotateArgs,
    file: &KeyFile,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let name = &*args.name;
    let overlap = args.overlap.unwrap_or_default();
    let key = file.rotate(name, overlap)?;
    app.audit(kind::KEY, None, Some(name), &json!({ "change": "rotated", "overlapSeconds": overlap.as_secs() }));
    let gateways = GatewayKeys::ask(app, file, name).await?;
    if matches!(output.format, Format::Human | Format::Raw) {
        output.line(key.expose());
        let before = match overlap.as_secs() {
            0 => "the key before is refused from now on".to_owned(),
            seconds => format!("the key before expires {}", list::until(seconds, 0)),
        };
        output.notice(&format!("toolway: this key of client `{name}` is shown only once; {before}"));
    } else {
        let overlap = overlap.as_secs();
        output.json(&Raw::of(&json!({ "name": name, "key": key.expose(), "overlapSeconds": overlap })));
    }
    gateways.report_problems("the new key", output);
    Ok(ExitCode::Ok)
}

pub(super) async fn update(
    args: &UpdateArgs,
    file: &KeyFile,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let name = &*args.name;
    let servers = match (args.all_servers, &args.servers[..]) {
        (true, _) => Change::All,
        (false, []) => Change::Keep,
        (false, servers) => Change::Only(super::find_servers(servers, &app.load()?)?),
    };
    let tools = match (args.all_tools, &args.tools[..]) {
        (true, _) => Change::All,
        (false, []) => Change::Keep,
        (false, tools) => Change::Only(tools.to_vec()),
    };
    let client = file.update(name, &KeyUpdate { servers, tools, lasts: args.expires })?;
    let now = json!({ "name": name, "servers": client.servers, "tools": client.tools, "expires": client.expires.map(list::rfc3339) });
    app.audit(kind::KEY, None, Some(name), &json!({ "change": "updated", "now": now }));
    let gateways = GatewayKeys::ask(app, file, name).await?;
    if output.format == Format::Human {
        output.line(&format!("Client `{name}` can use {}.", list::rights(&client)));
    } else {
        output.json(&Raw::of(&now));
    }
    gateways.report_problems("the change", output);
    Ok(ExitCode::Ok)
}

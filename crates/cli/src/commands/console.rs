//! `toolway console`: opens the web console of the running gateway, or starts a gateway with one.

use serde_json::json;
use toolway_gateway::control::ControlRequest;
use toolway_wire::json::Raw;
use url::Url;

use super::serve::{self, OpenConsole};
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    sign_in::opener::Openers,
};

/// Open the web console
///
/// Opens the console of the running gateway (`toolway serve`) in a browser and prints its link. Starts a gateway if none is
/// running; that one prints the link only at a terminal. The link signs one browser in, once, within 10 minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConsoleArgs {
    /// Print the link without opening a browser
    #[arg(long)]
    no_open: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway console
  toolway console --no-open -o json";

pub(crate) async fn run(args: &ConsoleArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let Some(reply) = app.ask_gateway(&ControlRequest::Console {}).await? else {
        let open = if args.no_open { OpenConsole::LinkOnly } else { OpenConsole::InBrowser };
        return serve::run_console(open, app, output).await;
    };
    let link = reply.value["console"].as_str().unwrap_or_default();
    match output.format {
        Format::Json | Format::Ndjson => output.json(&Raw::of(&json!({ "console": link }))),
        Format::Human | Format::Raw => output.line(link),
    }
    if !args.no_open {
        open_browser(link, app, output).await;
    }
    Ok(ExitCode::Ok)
}

/// Opens a browser, or says that no browser was found.
pub(super) async fn open_browser(link: &str, app: &App, output: &mut Output) {
    let is_open = match Url::parse(link) {
        Ok(url) => Openers::of(&app.environment).open(&url).await,
        Err(_) => false,
    };
    if !is_open {
        output.notice("toolway: no browser could be opened; open the link yourself");
    }
}

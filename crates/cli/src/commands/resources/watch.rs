//! `toolway resources watch`: prints the changes of a resource that its server announces.

use serde_json::json;
use toolway_host::{
    call::{Caller, CallerContext, ResourceUpdate, Subscription, Target},
    connection::Lists,
    time::rfc3339_of,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    report::Report,
    single_server_host::SingleServerHost,
};

/// A resource to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// `<server> <URI>` or `<server>.<URI>`, or `<URI>` if an option gives the server
    #[arg(value_name = "SERVER_AND_URI", num_args = 1..=2, required = true)]
    words: Vec<String>,

    /// Stop after the first change
    #[arg(long)]
    once: bool,
}

pub(crate) async fn run(args: &WatchArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    app.split_address(&mut words);
    let target = app.target(&mut words, output)?;
    let [uri] = words.as_slice() else {
        return Err(Report::usage("arguments", "give the server and one URI"));
    };
    app.with_server(target, Lists::Ignored, output, async |single, output| {
        let context = CallerContext::from(&Caller::Terminal);
        let subscribing = single.host.subscribe(context, Target::ResourceOf(single.origin(uri)));
        let subscribed = app.stop.or(subscribing).await?;
        let subscription = subscribed.map_err(|outcome| single.report(&outcome, "resources/subscribe"))?;
        output.notice(&format!("Watching {} of {}; Ctrl-C ends it.", clean::flat(uri), single.name()));
        follow(subscription, args, app, single, output).await
    })
    .await
}

/// Prints updates until the first one, if that is wanted, or until the command is stopped.
async fn follow(
    mut subscription: Subscription,
    args: &WatchArgs,
    app: &App,
    single: &SingleServerHost,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    loop {
        let Some(update) = app.stop.or(subscription.next()).await? else {
            let problem = format!("server `{}` sends no more updates of this resource", single.name());
            return Err(Report::new(ExitCode::Unreachable, "ended", problem));
        };
        show(&update, subscription.uri(), output);
        if args.once && matches!(update, ResourceUpdate::Changed { .. }) {
            return Ok(ExitCode::Ok);
        }
    }
}

fn show(update: &ResourceUpdate, watched: &str, output: &mut Output) {
    let at = rfc3339_of(std::time::SystemTime::now());
    let (kind, uri, words) = match update {
        ResourceUpdate::Changed { uri, .. } => ("updated", uri.as_str(), "has changed"),
        ResourceUpdate::Resumed => ("resumed", watched, "may have changed: the subscription was interrupted"),
    };
    match output.format {
        Format::Json | Format::Ndjson => output.json(&Raw::of(&json!({ "type": kind, "uri": uri, "at": at }))),
        Format::Raw => output.content(format!("{}\n", clean::flat(uri)).as_bytes()),
        Format::Human => output.line(&format!("{at} {} {words}", clean::flat(uri))),
    }
}

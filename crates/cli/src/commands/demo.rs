//! `toolway demo`: a tour with the embedded sample server, without configuration.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::{ServerName, server::Start};
use toolway_host::{
    call::{CallEvent, CallOutcome, CallRequest, Caller, Target},
    catalog::{ItemKind, Origin},
    connection::{Lists, Phase, Program, ServerAddress, WantedServer, Way as ServerWay},
    host::Host,
    inbox::{Answerer, ElicitationAnswer, ElicitationModes, Form, FormField, InboxAnswer, InboxContent, InboxItem},
};
use toolway_sample::Sample;
use toolway_wire::{
    down::{self, DownstreamOptions},
    json::Raw,
    message::{content::ContentKind, result::CallResult},
};

use super::{
    ping,
    sample::{self, ServedEra},
};
use crate::{
    compose,
    exit_code::ExitCode,
    output::{self, Output},
};

/// Show what Toolway does, with an embedded server
///
/// Starts the sample server as a process and over HTTP, with a session-based and with the sessionless protocol revision,
/// lists its tools and calls some of them: one with progress, one with structured content and an image, one that
/// requests user input. Needs no configuration and no installation.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

/// One way to run the sample server.
struct Variant {
    title: &'static str,
    era: ServedEra,
    over_http: bool,
}

/// A host with the sample server, and the elicitor that answers its requests.
struct DemoHost {
    host: Host,
    server: ServerName,
    elicitor: Arc<TerminalElicitor>,
}

const VARIANTS: [Variant; 4] = [
    Variant { title: "as a child process, with a session", era: ServedEra::Legacy, over_http: false },
    Variant { title: "as a child process, without a session", era: ServedEra::Modern, over_http: false },
    Variant { title: "over HTTP, with a session", era: ServedEra::Legacy, over_http: true },
    Variant { title: "over HTTP, without a session", era: ServedEra::Modern, over_http: true },
];

pub(crate) async fn run(_args: &DemoArgs, output: &mut Output) -> ExitCode {
    output.line("Toolway connects to one server in four ways; the calls and the results are the same in each.");
    for (number, variant) in (1..).zip(VARIANTS) {
        output.line(&format!("\n{number}. The sample server {}", variant.title));
        if let Err(error) = show(&variant, output).await {
            return output.fail(ExitCode::Unreachable, &error);
        }
    }
    output.line("\nOne way to call tools, whatever a server speaks. Next: `toolway tools --stdio 'toolway sample'`,");
    output.line("or the same with any other server; docs/guide/first-steps.md continues from there.");
    ExitCode::Ok
}

async fn show(variant: &Variant, output: &mut Output) -> Result<(), String> {
    let (address, _server) = start(variant).await.map_err(|error| error.to_string())?;
    let demo = DemoHost::start(address).await?;
    let DemoHost { host, server, .. } = &demo;
    let status = host.list(server).await.map_err(|error| error.to_string())?;
    let (Phase::Ready, Some(profile)) = (&status.phase, &status.profile) else {
        return Err(status.phase.for_operator().into_string());
    };
    let said = profile.info.get("name").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
    output.line(&format!("   protocol {}, server {said}", profile.revision));
    if let Some(custody) = &status.cleanup {
        output.line(&format!("   {}", ping::custody_text(custody)));
    }

    let catalog = host.catalog();
    let names: Vec<&str> = catalog.tools_of(server).iter().map(|tool| tool.item.name.as_str()).collect();
    output.line(&format!("   offers {} tools: {}", names.len(), names.join(", ")));

    demo.call("count", &json!({ "to": 3 }), output).await?;
    demo.call("picture", &json!({}), output).await?;
    demo.call("greet", &json!({}), output).await?;
    host.shutdown().await;
    Ok(())
}

/// The address of the server. Over HTTP, this process serves it until the second value is dropped.
async fn start(variant: &Variant) -> std::io::Result<(ServerAddress, Option<AbortOnDropHandle<()>>)> {
    if !variant.over_http {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let mut program = Program::new(program);
        let era = if variant.era == ServedEra::Legacy { "legacy" } else { "modern" };
        program.arguments = vec!["sample".to_owned(), "--era".to_owned(), era.to_owned()];
        return Ok((ServerAddress::Process(program), None));
    }
    let options = DownstreamOptions { revisions: variant.era.revisions(), ..DownstreamOptions::default() };
    let (listener, downstream, address) = sample::listen(Arc::new(Sample::new()), options).await?;
    let serving = tokio::runtime::Handle::current().spawn(async move {
        // If serving fails, the calls below report it.
        drop(down::http::serve(listener, downstream, CancellationToken::new()).await);
    });
    let url = address.parse().map_err(std::io::Error::other)?;
    Ok((ServerAddress::http(url), Some(AbortOnDropHandle::new(serving))))
}

impl DemoHost {
    async fn start(address: ServerAddress) -> Result<Self, String> {
        let server = ServerName::from_label("sample").map_err(|error| error.to_string())?;
        let wanted = WantedServer {
            start: Start::WhenNeeded,
            lists: Lists::Only(ItemKind::Tool),
            ..WantedServer::new(server.clone(), ServerWay::Address(address))
        };
        let elicitor = Arc::new(TerminalElicitor { present: output::is_interactive() });
        // The host decides which variables the child process inherits.
        let environment = std::env::vars_os().collect();
        let answers = Arc::clone(&elicitor) as Arc<dyn Elicitor>;
        let host = compose::demo_host(wanted, answers, environment).await.map_err(|report| report.message)?;
        Ok(Self { host, server, elicitor })
    }

    async fn call(&self, tool: &str, arguments: &serde_json::Value, output: &mut Output) -> Result<(), String> {
        output.line(&format!("   {tool} {arguments}"));
        let target = Target::ToolOf(Origin { server: self.server.clone(), raw_name: tool.to_owned() });
        let request = CallRequest { arguments: Some(Raw::of(arguments)), ..CallRequest::new(Caller::Terminal, target) };
        let mut progress = Vec::new();
        let observe = |event: &CallEvent| {
            if let CallEvent::Progress(params) = event {
                progress.push(params.get("message").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned());
            }
        };
        let outcome = self.host.open(request).outcome_with(observe).await;
        if !progress.is_empty() {
            output.line(&format!("      progress: {}", progress.join(", ")));
        }
        if tool == "greet" && !self.elicitor.present {
            output.line("      requested your name; no interactive terminal, so the form's default was sent");
        }
        match &outcome {
            CallOutcome::Answered(result) => print_result(&CallResult::view(result), output),
            other => return Err(other.to_string()),
        }
        Ok(())
    }
}

fn print_result(result: &CallResult, output: &mut Output) {
    for block in &result.content {
        output.line(&format!("      {}", describe(&block.kind)));
    }
    if let Some(structured) = &result.structured {
        output.line(&format!("      structured: {structured}"));
    }
}

fn describe(content: &ContentKind) -> String {
    match content {
        ContentKind::Text(text) => text.clone(),
        ContentKind::Image { data, mime_type } => {
            format!("an image, {mime_type}, {} characters of base64", data.len())
        }
        ContentKind::Audio { mime_type, .. } => format!("audio, {mime_type}"),
        ContentKind::Resource { uri, .. } | ContentKind::ResourceLink { uri } => format!("a resource, {uri}"),
        ContentKind::Other(kind) => format!("unknown content type `{kind}`"),
    }
}

/// Answers elicitation from the terminal, or with the defaults of the form if it is not interactive.
struct TerminalElicitor {
    present: bool,
}

impl Answerer for TerminalElicitor {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Forms
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async move {
            let InboxContent::Form { form, .. } = &item.content else { return InboxAnswer::Unavailable };
            let fields = Field::all(form);
            let present = self.present;
            let content = tokio::task::spawn_blocking(move || fill_form(&fields, present)).await;
            match content {
                Ok(Some(content)) => InboxAnswer::Elicitation(ElicitationAnswer::Accept(content)),
                Ok(None) => InboxAnswer::Elicitation(ElicitationAnswer::Cancel),
                Err(_) => InboxAnswer::Unavailable,
            }
        })
    }
}

/// One field of a form.
struct Field {
    name: String,
    title: String,
    default: String,
}

impl Field {
    fn all(form: &Form) -> Vec<Self> {
        let field = |field: &FormField| Self {
            title: field.label().to_owned(),
            default: field.default.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            name: field.name.clone(),
        };
        form.fields.iter().map(field).collect()
    }
}

/// Fills in the form; `None` if the user closes the input.
fn fill_form(fields: &[Field], present: bool) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for field in fields {
        let answer = if present { ask_field(field)? } else { String::new() };
        let answer = if answer.is_empty() { field.default.clone() } else { answer };
        content.insert(field.name.clone(), Value::String(answer));
    }
    Some(content)
}

fn ask_field(field: &Field) -> Option<String> {
    let mut stderr = std::io::stderr();
    write!(stderr, "      {} [{}]: ", field.title, field.default).and_then(|()| stderr.flush()).ok()?;
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_owned()),
    }
}

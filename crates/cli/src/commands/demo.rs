//! `toolway demo`: the main job, shown on the embedded server with nothing configured.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::{Config, ServerName, server::Start};
use toolway_host::{
    call::{CallHappening, CallOutcome, CallRequest, Caller, Target},
    catalog::{ItemKind, Origin},
    connection::{
        Lists, Phase, Program, ServerAddress, WantedServer, Way as Reached,
        client_face::{Asked, ElicitationModes, Elicitor},
    },
    host::{Host, HostOptions},
    ports::HostPorts,
};
use toolway_sample::Sample;
use toolway_wire::{
    down::{self, FaceOptions},
    exchange::{Answer, Question},
    json::Raw,
    message::{content::ContentKind, result::CallResult},
};

use super::{
    ping,
    sample::{self, Spoken},
};
use crate::{
    exit_code::ExitCode,
    output::{self, Output},
};

/// Show the main job on an embedded server
///
/// Starts the sample server as a process and over HTTP, in a revision with a session and in the one without, lists
/// its tools and calls some of them: one with progress, one with structured content and a picture, one that asks
/// something in the middle. Nothing has to be configured or installed.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

/// One way to the sample server.
struct Way {
    title: &'static str,
    spoken: Spoken,
    over_http: bool,
}

/// A host with one server, and whoever answers what that asks.
struct Stage {
    host: Host,
    server: ServerName,
    person: Arc<Person>,
}

const WAYS: [Way; 4] = [
    Way { title: "as a child process, with a session", spoken: Spoken::Legacy, over_http: false },
    Way { title: "as a child process, without a session", spoken: Spoken::Modern, over_http: false },
    Way { title: "over HTTP, with a session", spoken: Spoken::Legacy, over_http: true },
    Way { title: "over HTTP, without a session", spoken: Spoken::Modern, over_http: true },
];

pub(crate) async fn run(_args: &DemoArgs, output: &mut Output) -> ExitCode {
    output.line("Toolway reaches one server in four ways; what is called and what comes back is the same in each.");
    for (number, way) in (1..).zip(WAYS) {
        output.line(&format!("\n{number}. The sample server {}", way.title));
        if let Err(error) = show(&way, output).await {
            return output.failed(ExitCode::Unreachable, &error);
        }
    }
    output.line("\nOne way to call, whatever a server speaks. Next: `toolway tools --stdio 'toolway sample'`,");
    output.line("or any other server in its place; docs/guide/first-steps.md goes on from there.");
    ExitCode::Ok
}

async fn show(way: &Way, output: &mut Output) -> Result<(), String> {
    let (address, _server) = start(way).await.map_err(|error| error.to_string())?;
    let stage = Stage::set(address).await?;
    let Stage { host, server, .. } = &stage;
    let status = host.list(server).await.map_err(|error| error.to_string())?;
    let (Phase::Ready, Some(profile)) = (&status.phase, &status.profile) else { return Err(status.phase.to_string()) };
    let said = profile.info.get("name").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
    output.line(&format!("   speaks {}, calls itself {said}", profile.revision));
    if let Some(custody) = &status.custody {
        output.line(&format!("   {}", ping::in_words(custody)));
    }

    let catalog = host.catalog();
    let names: Vec<&str> = catalog.tools_of(server).iter().map(|tool| tool.item.name.as_str()).collect();
    output.line(&format!("   offers {} tools: {}", names.len(), names.join(", ")));

    stage.call("count", &json!({ "to": 3 }), output).await?;
    stage.call("picture", &json!({}), output).await?;
    stage.call("greet", &json!({}), output).await?;
    host.shutdown().await;
    Ok(())
}

/// Where the server of one way is; over HTTP it is served from here as long as the second value lives.
async fn start(way: &Way) -> std::io::Result<(ServerAddress, Option<AbortOnDropHandle<()>>)> {
    if !way.over_http {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let mut program = Program::new(program);
        let era = if way.spoken == Spoken::Legacy { "legacy" } else { "modern" };
        program.arguments = vec!["sample".to_owned(), "--era".to_owned(), era.to_owned()];
        return Ok((ServerAddress::Process(program), None));
    }
    let options = FaceOptions { revisions: way.spoken.revisions(), ..FaceOptions::default() };
    let (listener, face, address) = sample::listen(Arc::new(Sample::new()), options).await?;
    let serving = tokio::runtime::Handle::current().spawn(async move {
        // Should serving fail, the calls below say so.
        drop(down::http::serve(listener, face, CancellationToken::new()).await);
    });
    let url = address.parse().map_err(std::io::Error::other)?;
    Ok((ServerAddress::http(url), Some(AbortOnDropHandle::new(serving))))
}

impl Stage {
    async fn set(address: ServerAddress) -> Result<Self, String> {
        let server = ServerName::from_label("sample").map_err(|error| error.to_string())?;
        let wanted = WantedServer {
            start: Start::WhenNeeded,
            lists: Lists::Only(ItemKind::Tool),
            ..WantedServer::new(server.clone(), Reached::Address(address))
        };
        let person = Arc::new(Person { present: output::person_present() });
        let ports = HostPorts { elicitor: Arc::clone(&person) as Arc<dyn Elicitor>, ..HostPorts::default() };
        // What the child process may see of our environment is decided by the host.
        let environment = std::env::vars_os().collect();
        let options = HostOptions { servers: vec![wanted], environment, ..HostOptions::default() };
        let host = Host::start(&Config::default(), ports, options).await.map_err(|error| error.to_string())?;
        Ok(Self { host, server, person })
    }

    async fn call(&self, tool: &str, arguments: &serde_json::Value, output: &mut Output) -> Result<(), String> {
        output.line(&format!("   {tool} {arguments}"));
        let target = Target::ToolOf(Origin { server: self.server.clone(), raw_name: tool.to_owned() });
        let request = CallRequest { arguments: Some(Raw::of(arguments)), ..CallRequest::new(Caller::Terminal, target) };
        let mut progress = Vec::new();
        let see = |happening: &CallHappening| {
            if let CallHappening::Progress(params) = happening {
                progress.push(params.get("message").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned());
            }
        };
        let outcome = self.host.open(request).outcome_with(see).await;
        if !progress.is_empty() {
            output.line(&format!("      progress: {}", progress.join(", ")));
        }
        if tool == "greet" && !self.person.present {
            output.line("      asked who you are; no terminal, so the form's default was the answer");
        }
        match &outcome {
            CallOutcome::Answered(result) => tell(&CallResult::view(result), output),
            other => return Err(other.to_string()),
        }
        Ok(())
    }
}

fn tell(result: &CallResult, output: &mut Output) {
    for block in &result.content {
        output.line(&format!("      {}", described(&block.kind)));
    }
    if let Some(structured) = &result.structured {
        output.line(&format!("      structured: {structured}"));
    }
}

fn described(content: &ContentKind) -> String {
    match content {
        ContentKind::Text(text) => text.clone(),
        ContentKind::Image { data, mime_type } => {
            format!("a picture, {mime_type}, {} characters of base64", data.len())
        }
        ContentKind::Audio { mime_type, .. } => format!("a sound, {mime_type}"),
        ContentKind::Resource { uri, .. } | ContentKind::ResourceLink { uri } => format!("a resource, {uri}"),
        ContentKind::Other(kind) => format!("something of the kind `{kind}`"),
    }
}

/// Whoever sits at the terminal, or the defaults of the form.
struct Person {
    present: bool,
}

impl Elicitor for Person {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Forms
    }

    fn elicit(&self, asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let fields = Field::all(&asked.question);
            let present = self.present;
            let content = tokio::task::spawn_blocking(move || filled(&fields, present)).await;
            match content {
                Ok(Some(content)) => Answer::Given(Raw::of(&json!({ "action": "accept", "content": content }))),
                Ok(None) => Answer::dismissed(),
                Err(_) => Answer::Nobody,
            }
        })
    }
}

/// One line of a form.
struct Field {
    name: String,
    title: String,
    default: String,
}

impl Field {
    fn all(question: &Question) -> Vec<Self> {
        let schema = question.params.as_ref().and_then(|params| params.get("requestedSchema"));
        let properties = schema.and_then(|schema| schema.get("properties"));
        let members = properties.map(|properties| properties.members()).unwrap_or_default();
        let text = |raw: &Raw, key| raw.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let field = |member: toolway_wire::json::Member| Self {
            title: text(&member.value, "title").unwrap_or_else(|| member.key.clone()),
            default: text(&member.value, "default").unwrap_or_default(),
            name: member.key,
        };
        members.into_iter().map(field).collect()
    }
}

/// The form, filled in by whoever is there; none when they hang up.
fn filled(fields: &[Field], present: bool) -> Option<BTreeMap<String, String>> {
    let mut content = BTreeMap::new();
    for field in fields {
        let answer = if present { asked(field)? } else { String::new() };
        let answer = if answer.is_empty() { field.default.clone() } else { answer };
        content.insert(field.name.clone(), answer);
    }
    Some(content)
}

fn asked(field: &Field) -> Option<String> {
    let mut talk = std::io::stderr();
    write!(talk, "      {} [{}]: ", field.title, field.default).and_then(|()| talk.flush()).ok()?;
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_owned()),
    }
}

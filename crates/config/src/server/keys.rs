//! The keys of an entry of `mcpServers` that have an effect. Those of other hosts are in `foreign_keys`.

use super::{
    Era, HttpKind, Need, SessionEnd, Sharing, Start, Timeouts, auth,
    draft::{Draft, Kind, all_but, offered, only},
    reconnect,
};
use crate::{
    Pattern,
    call_limits::{self, LimitsOf},
    cluster,
    document::Value,
    error::ConfigError,
    interpolate::Dialect,
    roots, sampling,
    server::PlainHttp,
    shape::{Field, Key, Shape, put},
    tasks,
    trust::{self, FileAccess, TRUST_VALUES},
};

/// Values of `type`, with the aliases of other hosts.
const KINDS: &[(&str, Kind)] = &[
    ("stdio", Kind::Process),
    ("local", Kind::Process),
    ("http", Kind::Http(HttpKind::Http)),
    ("streamable-http", Kind::Http(HttpKind::Http)),
    ("streamableHttp", Kind::Http(HttpKind::Http)),
    ("streamable_http", Kind::Http(HttpKind::Http)),
    ("sse", Kind::Http(HttpKind::Sse)),
    ("auto", Kind::Http(HttpKind::Auto)),
    ("remote", Kind::Http(HttpKind::Auto)),
];
const KIND: Shape = Shape::OneOfOrAlias(
    &["stdio", "http", "sse", "auto"],
    &["local", "streamable-http", "streamableHttp", "streamable_http", "remote"],
);
const ERAS: &[(&str, Era)] = &[("auto", Era::Auto), ("legacy", Era::Legacy), ("modern", Era::Modern)];
const SHARING: &[(&str, Sharing)] =
    &[("caller", Sharing::Caller), ("shared", Sharing::Shared), ("session", Sharing::Session)];
const SHARINGS: Shape = Shape::OneOf(&["caller", "shared", "session"]);
pub(crate) const SESSIONS: &[(&str, SessionEnd)] = &[("end", SessionEnd::End), ("keep", SessionEnd::Keep)];
pub(crate) const SESSION_VALUES: Shape = Shape::OneOf(&["end", "keep"]);
const CLOCKS: &[&str] = &["connect", "idle", "total"];

/// Parses `type`, including the aliases of other hosts.
pub(crate) fn kind(field: &Field<'_>) -> Result<Kind, ConfigError> {
    field.choice(KINDS, KIND)
}

/// The program; other hosts also write a list of program and arguments.
fn command(draft: &mut Draft, field: &Field<'_>) -> Result<(), ConfigError> {
    if !matches!(field.node.value, Value::List(_)) {
        return put(&mut draft.command, Some(field.template(Dialect::Toolway)?));
    }
    let mut words = field.templates(Dialect::Toolway)?.into_iter();
    draft.command = words.next();
    draft.arguments = Some(words.collect());
    Ok(())
}

fn timeouts(field: &Field<'_>) -> Result<Timeouts, ConfigError> {
    let mut timeouts = Timeouts::default();
    for (key, clock) in field.members()? {
        match key {
            "connect" => timeouts.connect = Some(clock.time()?),
            "idle" => timeouts.idle = Some(clock.time()?),
            "total" => timeouts.total = Some(clock.time()?),
            _ => return Err(clock.unknown(CLOCKS.iter().copied())),
        }
    }
    Ok(timeouts)
}

fn patterns(field: &Field<'_>) -> Result<Vec<Pattern>, ConfigError> {
    Ok(field.texts()?.into_iter().map(Pattern::new).collect())
}

fn add_tools(
    draft: &mut Draft,
    field: &Field<'_>,
    filter: fn(Vec<String>) -> super::NameFilter,
) -> Result<(), ConfigError> {
    draft.filters.tool_names = std::mem::take(&mut draft.filters.tool_names).and(filter(field.texts()?));
    Ok(())
}

fn add_prompts(
    draft: &mut Draft,
    field: &Field<'_>,
    filter: fn(Vec<String>) -> super::NameFilter,
) -> Result<(), ConfigError> {
    draft.filters.prompt_names = std::mem::take(&mut draft.filters.prompt_names).and(filter(field.texts()?));
    Ok(())
}

/// Every key of an entry that has an effect.
pub(crate) const KEYS: &[Key<Draft>] = &[
    Key {
        name: "command",
        shape: Shape::Text,
        doc: "Program to start (stdio transport), by name or path.",
        example: r#""npx""#,
        set: command,
    },
    Key {
        name: "args",
        shape: Shape::Texts,
        doc: "Arguments of the program.",
        example: r#"["-y", "@modelcontextprotocol/server-memory"]"#,
        set: |draft, field| {
            draft.arguments.get_or_insert_default().extend(field.templates(Dialect::Toolway)?);
            Ok(())
        },
    },
    Key {
        name: "env",
        shape: Shape::Pairs,
        doc: "Environment variables of the program. It does not inherit the environment of Toolway, except for a few \
              basic variables such as `PATH` and `HOME`.",
        example: r#"{"TOKEN": "${GITHUB_TOKEN}"}"#,
        set: |draft, field| put(&mut draft.variables, field.pairs(Dialect::ToolwayValue)?),
    },
    Key {
        name: "envFile",
        shape: Shape::Text,
        doc: "File with further environment variables, one `NAME=value` per line; `env` takes precedence.",
        example: r#""secrets.env""#,
        set: |draft, field| put(&mut draft.variables_file, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "cwd",
        shape: Shape::Text,
        doc: "Working directory of the program. Default: the home directory, or the project folder for a server of a \
              project file. A relative path is relative to the folder of the configuration file.",
        example: r#""/srv/data""#,
        set: |draft, field| put(&mut draft.directory, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "url",
        shape: Shape::Text,
        doc: "URL of the server, http or https. Set either `command` or `url`, not both.",
        example: r#""https://example.org/mcp""#,
        set: |draft, field| put(&mut draft.url, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "headers",
        shape: Shape::Pairs,
        doc: "HTTP headers sent with every request.",
        example: r#"{"Authorization": "Bearer ${TOKEN}"}"#,
        set: |draft, field| put(&mut draft.headers, field.pairs(Dialect::ToolwayValue)?),
    },
    Key {
        name: "allowInsecureHttp",
        shape: Shape::Flag,
        doc: "Allows a plain http URL on another machine. The traffic is not encrypted and can be read on the network. \
              Default: `false`.",
        example: "true",
        set: |draft, field| {
            let plain = if field.flag()? { PlainHttp::Anywhere } else { PlainHttp::Loopback };
            put(&mut draft.plain, Some(plain))
        },
    },
    Key {
        name: "auth",
        shape: auth::AUTH,
        doc: "Authentication to the server, by `kind`: `none`; `bearer` with a `token`; `apiKey` with a `key` (and the \
              `header` it is sent in, default `x-api-key`); `basic` with `username` and `password`; `oauth` (default): \
              the user signs in with `toolway login` when the server requires it (`dpop` binds tokens to a key, `shared` \
              lets all clients of the gateway use the operator's sign-in); and, without user interaction, \
              `clientCredentials`, `enterprise`, `workload` and `google`. See the guide on signing in.",
        example: r#"{"kind": "bearer", "token": "${TOKEN}"}"#,
        set: |draft, field| put(&mut draft.auth, Some(auth::auth(field)?)),
    },
    Key {
        name: "oauth",
        shape: auth::OAUTH,
        doc: "OAuth settings that override discovery and client registration: `clientId`, `clientSecret`, `scopes`, \
              `callbackPort`, `redirectUri`, `issuer`, `metadataUrl`, `authorizationUrl`, `tokenUrl`, `clientName`. \
              `oldServer`: `false` refuses sign-in to a server without protected resource metadata, which is otherwise tried as its \
              own authorization server, as in revision 2025-03-26; `true` does so even if the metadata is temporarily \
              unavailable. \
              A client secret or an assertion that is sent without user interaction requires `issuer`, `metadataUrl` or \
              `tokenUrl`.",
        example: r#"{"clientId": "toolway", "callbackPort": 6276}"#,
        set: |draft, field| put(&mut draft.oauth, auth::oauth(field)?),
    },
    Key {
        name: "type",
        shape: KIND,
        doc: "Transport of the server. Default: `stdio` with `command`; `auto` with `url`, which tries Streamable HTTP \
              first, then HTTP+SSE.",
        example: r#""http""#,
        set: |draft, field| put(&mut draft.kind, Some(kind(field)?)),
    },
    Key {
        name: "enabled",
        shape: Shape::Flag,
        doc: "Whether the server is used. Default: `true`.",
        example: "false",
        set: |draft, field| {
            let before = draft.enabled.unwrap_or(true);
            put(&mut draft.enabled, Some(field.flag()? && before))
        },
    },
    Key {
        name: "disabled",
        shape: Shape::Flag,
        doc: "Opposite of `enabled`, as some hosts write it.",
        example: "true",
        set: |draft, field| {
            let before = draft.enabled.unwrap_or(true);
            put(&mut draft.enabled, Some(!field.flag()? && before))
        },
    },
    Key {
        name: "required",
        shape: Shape::Flag,
        doc: "Commands that list all servers fail with exit code 4 if this server cannot be reached, and so does the \
              start-up wait of an embedding program. Default: `false`.",
        example: "true",
        set: |draft, field| put(&mut draft.need, Some(if field.flag()? { Need::Required } else { Need::Optional })),
    },
    Key {
        name: "era",
        shape: Shape::OneOf(&["auto", "legacy", "modern"]),
        doc: "Revisions of the protocol to use with this server. Leave the default, `auto`, unless a server fails with it: \
              the revision is detected at the first connection and remembered, or detected again after a day if the server \
              did not answer. `legacy`: the revisions with a session, 2025-11-25 and older. `modern`: the revision without \
              sessions, 2026-07-28. With `auto`, a server that supports both is used as `modern`. If its requests to the \
              client (elicitation, sampling, roots) then fail, it is used as `legacy` from then on, which is remembered too.",
        example: r#""legacy""#,
        set: |draft, field| put(&mut draft.era, Some(field.choice(ERAS, Shape::OneOf(&["auto", "legacy", "modern"]))?)),
    },
    Key {
        name: "timeouts",
        shape: Shape::Times(CLOCKS),
        doc: "Timeouts: `connect` for connecting (default 30 s), `idle` for a call without progress (default 5 min) and \
              `total` for a call in total (default 30 min).",
        example: r#"{"connect": "10s", "idle": "2m", "total": "1h"}"#,
        set: |draft, field| put(&mut draft.timeouts, timeouts(field)?),
    },
    Key {
        name: "includeTools",
        shape: Shape::Texts,
        doc: "Offer only these tools, by the names the server uses; `*` matches any text.",
        example: r#"["read_*"]"#,
        set: |draft, field| add_tools(draft, field, only),
    },
    Key {
        name: "excludeTools",
        shape: Shape::Texts,
        doc: "Do not offer these tools, even if `includeTools` matches them.",
        example: r#"["delete_*"]"#,
        set: |draft, field| add_tools(draft, field, all_but),
    },
    Key {
        name: "includePrompts",
        shape: Shape::Texts,
        doc: "Offer only these prompts; `*` matches any text.",
        example: r#"["review"]"#,
        set: |draft, field| add_prompts(draft, field, only),
    },
    Key {
        name: "excludePrompts",
        shape: Shape::Texts,
        doc: "Do not offer these prompts, even if `includePrompts` matches them.",
        example: r#"["draft-*"]"#,
        set: |draft, field| add_prompts(draft, field, all_but),
    },
    Key {
        name: "tools",
        shape: Shape::FlagOrTexts,
        doc: "Whether the tools of the server are offered. Default: `true`. A list is the same as `includeTools`.",
        example: "false",
        set: |draft, field| match field.flag() {
            Ok(on) => put(&mut draft.filters.tools, offered(on)),
            Err(_) => add_tools(draft, field, only).map_err(|_| field.wrong(Shape::FlagOrTexts)),
        },
    },
    Key {
        name: "resources",
        shape: Shape::Flag,
        doc: "Whether the resources of the server are offered. Default: `true`.",
        example: "false",
        set: |draft, field| put(&mut draft.filters.resources, offered(field.flag()?)),
    },
    Key {
        name: "prompts",
        shape: Shape::Flag,
        doc: "Whether the prompts of the server are offered. Default: `true`.",
        example: "false",
        set: |draft, field| put(&mut draft.filters.prompts, offered(field.flag()?)),
    },
    Key {
        name: "sampling",
        shape: Shape::FlagOrMembers(sampling::MEMBERS),
        doc: "Whether the server may ask a model for an answer, as the top-level key `sampling`; the stricter one counts. \
              `false` is the same as `{\"allow\": \"never\"}`: sampling is not declared to the server, also where a client of \
              the gateway would answer; `true` sets nothing.",
        example: r#"{"allow": "ask"}"#,
        set: |draft, field| put(&mut draft.sampling, Some(sampling::read_flag_or_level(field)?)),
    },
    Key {
        name: "elicitation",
        shape: Shape::Flag,
        doc: "Whether elicitation requests of the server are answered. If `false`, elicitation is not declared to it. \
              Default: `true`.",
        example: "false",
        set: |draft, field| put(&mut draft.elicitation, Some(field.flag()?)),
    },
    Key {
        name: "roots",
        shape: roots::SHAPE,
        doc: "Folders that this server is told to work in, in addition to those of the top-level key `roots`.",
        example: r#"[{"path": "~/work/notes"}]"#,
        set: |draft, field| put(&mut draft.roots, Some(roots::read(field)?)),
    },
    Key {
        name: "retries",
        shape: Shape::Count,
        doc: "Same as `reconnect.attempts`.",
        example: "3",
        set: |draft, field| put(&mut draft.reconnect.attempts, Some(field.count()?)),
    },
    Key {
        name: "reconnect",
        shape: reconnect::RECONNECT,
        doc: "How the server is connected again after a failure: `attempts`, the maximum number of consecutive retries \
              before it is reported as failed (default: unlimited); `initialDelay`, the delay before the first retry \
              (default 1 s), which doubles with each failure; `maxDelay`, the longest delay (default 30 s).",
        example: r#"{"attempts": 5, "initialDelay": "500ms", "maxDelay": "1m"}"#,
        set: |draft, field| {
            let reconnect = reconnect::reconnect(field, draft.reconnect)?;
            put(&mut draft.reconnect, reconnect)
        },
    },
    Key {
        name: "lazy",
        shape: Shape::Flag,
        doc: "Connects the server on first use instead of at start-up. Default: the opposite of `autoConnect`.",
        example: "true",
        set: |draft, field| put(&mut draft.start, Some(if field.flag()? { Start::WhenNeeded } else { Start::AtOnce })),
    },
    Key {
        name: "idleStop",
        shape: Shape::Time,
        doc: "Disconnects the server after this time without use; the next call connects it again. Default: never.",
        example: r#""10m""#,
        set: |draft, field| put(&mut draft.idle_stop, Some(field.time()?)),
    },
    Key {
        name: "extraMethods",
        shape: Shape::Texts,
        doc: "Methods outside the protocol that clients of the gateway may call at `/servers/<id>/mcp`; `*` matches any \
              text. Default: none. Methods of the protocol are never forwarded in this way, in whatever spelling.",
        example: r#"["acme/search"]"#,
        set: |draft, field| put(&mut draft.extra_methods, Some(field.texts()?)),
    },
    Key {
        name: "sharing",
        shape: SHARINGS,
        doc: "How many processes of this server, or connections to it, the gateway has. It matters for servers with a \
              session, as most programs are; the others always have one. `caller` (default): one for each \
              client (key), started at its first request and stopped when it is idle. `session`: one for each session of \
              a client, for servers that must not mix two windows of the same client. `shared`: one for all clients, which \
              saves memory and is safe if the server keeps nothing about its client. Even then, clients that can answer \
              requests of the server (elicitation, sampling, roots) get their own. One process is started to list the \
              tools; with `caller`, the first client that answers no such requests takes it over.",
        example: r#""shared""#,
        set: |draft, field| put(&mut draft.sharing, Some(field.choice(SHARING, SHARINGS)?)),
    },
    Key {
        name: "replicas",
        shape: cluster::REPLICAS_VALUES,
        doc: "How many connections several gateways of a `cluster` have to this server. `each`: every gateway has its own, for \
              servers that keep nothing about their client. `session` (default for programs and for servers that issue \
              sessions): the requests of one client session reach the same process. `one`: one process for all gateways; \
              in preparation: `serve` with a `cluster` refuses to start with it. Without a cluster all three are the same.",
        example: r#""one""#,
        set: |draft, field| put(&mut draft.replicas, Some(cluster::read_replicas(field)?)),
    },
    Key {
        name: "sessions",
        shape: SESSION_VALUES,
        doc: "What becomes of the session that an HTTP server issued when Toolway shuts down: `end` deletes it, `keep` \
              leaves it, and the next start resumes it, with what the server keeps in it. A session that a killed process \
              left is resumed in either case. Not resumed: with `sharing: session`, or after URL, headers, credentials or \
              declared capabilities have changed. Default: `sessions` of all servers.",
        example: r#""keep""#,
        set: |draft, field| put(&mut draft.sessions, Some(field.choice(SESSIONS, SESSION_VALUES)?)),
    },
    Key {
        name: "tasks",
        shape: Shape::Members(tasks::MEMBERS),
        doc: "How calls are treated that this server continues as tasks, as the top-level key `tasks`.",
        example: r#"{"pollInterval": "30s"}"#,
        set: |draft, field| put(&mut draft.tasks, Some(tasks::read(field)?)),
    },
    Key {
        name: "trust",
        shape: Shape::OneOf(TRUST_VALUES),
        doc: "How far the server is trusted by policy: `untrusted` (its annotations are not believed), `read` (default: \
              tools annotated read-only pass `writes`) or `full` (all its tools pass `writes`). Servers of a project \
              file are `untrusted`, or as `policy.trustedFolders` of the user's file says. `true` or `false`, as other hosts write it, \
              is ignored.",
        example: r#""full""#,
        set: |draft, field| put(&mut draft.trust, Some(trust::trust(field)?)),
    },
    Key {
        name: "trustedTools",
        shape: Shape::Texts,
        doc: "Tools that pass `writes` whatever their annotations and the trust of the server, by the names the server \
              uses; `*` matches any text. Has no effect in a project file.",
        example: r#"["create_draft"]"#,
        set: |draft, field| put(&mut draft.trusted_tools, Some(patterns(field)?)),
    },
    Key {
        name: "requireConfirmation",
        shape: Shape::Texts,
        doc: "Tools that are asked about in every call, whatever rules, trust and saved answers allow; `*` matches any \
              text.",
        example: r#"["delete_*"]"#,
        set: |draft, field| put(&mut draft.require_confirmation, Some(patterns(field)?)),
    },
    Key {
        name: "allowFileAccess",
        shape: Shape::Flag,
        doc: "If `false`, calls with a `file:` URI or an absolute path outside the configured roots in their arguments are \
              refused, and so are such resources. A tripwire, not a sandbox: relative paths, paths inside other text and \
              what the server does by itself are not checked, and links are not followed. Default: not checked.",
        example: "false",
        set: |draft, field| put(&mut draft.file_access, Some(FileAccess::allowed(field.flag()?))),
    },
    Key {
        name: "limits",
        shape: Shape::Members(call_limits::MEMBERS),
        doc: "Limits on the calls of the server, by all callers together. `callsPerMinute`: as many at once, and then one \
              more each time a minute divided by the number has passed; counted by each process. `callsPerDay`: from \
              midnight to midnight UTC, exact for all processes that use the same store. `concurrent`: calls at the same \
              time; one more is refused at once, as with `gateway.callsPerClient`. `bytesPerCall`: largest arguments, and \
              largest result, each as JSON; larger arguments are not sent, a larger result is withheld from the caller. \
              `deadline`: total time of a call, whatever progress it reports, without the time that a person takes to \
              answer. `tools`: the same keys for the tools that match a pattern (`*` matches any text), in addition; each \
              pattern counts for itself. A call needs room in all limits that concern it, and one that is refused or not \
              sent counts in none. Calls of tools, prompts and resources count; lists, completions and the polling of \
              tasks do not.",
        example: r#"{"callsPerMinute": 60, "concurrent": 4, "tools": {"delete_*": {"callsPerDay": 10}}}"#,
        set: |draft, field| put(&mut draft.limits, Some(call_limits::read(field, LimitsOf::Server)?)),
    },
    Key {
        name: "autoContext",
        shape: Shape::Flag,
        doc: "Where `agent.autoContext` is on: attach resources of this server that it annotates for the assistant to messages of \
              `chat` and `run` that they fit. Default: `false`.",
        example: "true",
        set: |draft, field| put(&mut draft.auto_context, Some(field.flag()?)),
    },
    Key {
        name: "description",
        shape: Shape::Text,
        doc: "Human-readable description of the server.",
        example: r#""Our tickets""#,
        set: |draft, field| put(&mut draft.description, Some(field.text()?.to_owned())),
    },
];

#[cfg(test)]
mod tests {
    use super::{KIND, KINDS};
    use crate::shape::Shape;

    #[test]
    fn every_value_of_type_is_in_the_schema() {
        let Shape::OneOfOrAlias(values, aliases) = KIND else { panic!("values") };
        let described: Vec<&str> = values.iter().chain(aliases).copied().collect();
        assert!(KINDS.iter().all(|(name, _)| described.contains(name)));
        assert_eq!(KINDS.len(), described.len());
    }
}

//! The keys of an entry of `mcpServers`: ours, those we read as others write them, and those we know and do not use.

use super::{
    Era, HttpKind, Need, Sharing, Start, Timeouts, auth,
    draft::{Draft, Kind, all_but, offered, only},
};
use crate::{
    error::ConfigError,
    interpolate::Dialect,
    server::PlainHttp,
    shape::{Field, Key, Shape, put},
};

/// What `type` may say. Other hosts have more words for the same things.
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
const KIND: Shape = Shape::WordOrAlias(
    &["stdio", "http", "sse", "auto"],
    &["local", "streamable-http", "streamableHttp", "streamable_http", "remote"],
);
const ERAS: &[(&str, Era)] = &[("auto", Era::Auto), ("legacy", Era::Legacy), ("modern", Era::Modern)];
const SHARING: &[(&str, Sharing)] =
    &[("caller", Sharing::Caller), ("shared", Sharing::Shared), ("session", Sharing::Session)];
const SHARINGS: Shape = Shape::Word(&["caller", "shared", "session"]);
const CLOCKS: &[&str] = &["connect", "idle", "total"];

/// `type` as other hosts spell it too.
pub(crate) fn kind(field: &Field<'_>) -> Result<Kind, ConfigError> {
    field.word(KINDS, KIND)
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
        doc: "The program to start, by name or path.",
        example: r#""npx""#,
        set: |draft, field| put(&mut draft.command, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "args",
        shape: Shape::Texts,
        doc: "Its arguments.",
        example: r#"["-y", "@modelcontextprotocol/server-memory"]"#,
        set: |draft, field| put(&mut draft.arguments, Some(field.templates(Dialect::Toolway)?)),
    },
    Key {
        name: "env",
        shape: Shape::Pairs,
        doc: "Variables the program is given; of ours it sees only a few harmless ones.",
        example: r#"{"TOKEN": "${GITHUB_TOKEN}"}"#,
        set: |draft, field| put(&mut draft.variables, field.pairs(Dialect::ToolwayValue)?),
    },
    Key {
        name: "envFile",
        shape: Shape::Text,
        doc: "A file of further variables, `NAME=value` on each line; `env` goes before it.",
        example: r#""secrets.env""#,
        set: |draft, field| put(&mut draft.variables_file, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "cwd",
        shape: Shape::Text,
        doc: "Where the program runs: the home directory, or the project's folder, unless said here. \
              A relative path starts at the file's folder.",
        example: r#""/srv/data""#,
        set: |draft, field| put(&mut draft.directory, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "url",
        shape: Shape::Text,
        doc: "The address to dial, http or https.",
        example: r#""https://example.org/mcp""#,
        set: |draft, field| put(&mut draft.url, Some(field.template(Dialect::Toolway)?)),
    },
    Key {
        name: "headers",
        shape: Shape::Pairs,
        doc: "Headers sent with every request to the address.",
        example: r#"{"Authorization": "Bearer ${TOKEN}"}"#,
        set: |draft, field| put(&mut draft.headers, field.pairs(Dialect::ToolwayValue)?),
    },
    Key {
        name: "allowInsecureHttp",
        shape: Shape::Flag,
        doc: "Lets a plain http address be somewhere else than on this machine; whoever is in between reads along.",
        example: "true",
        set: |draft, field| {
            let plain = if field.flag()? { PlainHttp::Anywhere } else { PlainHttp::Loopback };
            put(&mut draft.plain, Some(plain))
        },
    },
    Key {
        name: "auth",
        shape: auth::AUTH,
        doc: "How requests to the address say who asks, by `kind`: `none`; `bearer` with a `token`; `apiKey` with a `key` \
              (and the `header` it is sent in, `x-api-key` unless said); `basic`; `oauth`, which is what holds unless said: \
              a person signs in with `toolway login` once the server asks for it (`dpop` binds tokens to a key, `shared` \
              lets all clients of the gateway use the operator's sign-in); and without a person `clientCredentials`, \
              `enterprise`, `workload` and `google`. See the guide on signing in.",
        example: r#"{"kind": "bearer", "token": "${TOKEN}"}"#,
        set: |draft, field| put(&mut draft.auth, Some(auth::auth(field)?)),
    },
    Key {
        name: "oauth",
        shape: auth::OAUTH,
        doc: "What is not left to discovery and registration when a token is asked for: `clientId`, `clientSecret`, \
              `scopes`, `callbackPort`, `issuer`, `metadataUrl`, `authorizationUrl`, `tokenUrl`, `clientName`; with `oldServer` a \
              server that does not say where may sign people in itself, as those of 2025-03-26 do. A secret or an \
              assertion that is sent without a person needs `issuer`, `metadataUrl` or `tokenUrl` beside it.",
        example: r#"{"clientId": "toolway", "callbackPort": 6276}"#,
        set: |draft, field| put(&mut draft.oauth, auth::oauth(field)?),
    },
    Key {
        name: "type",
        shape: KIND,
        doc: "How the server is reached. Without it `command` means `stdio`, and `url` means `auto`: \
              Streamable HTTP first, then HTTP+SSE.",
        example: r#""http""#,
        set: |draft, field| put(&mut draft.kind, Some(kind(field)?)),
    },
    Key {
        name: "enabled",
        shape: Shape::Flag,
        doc: "Whether the server may be used at all; true unless said.",
        example: "false",
        set: |draft, field| {
            let before = draft.enabled.unwrap_or(true);
            put(&mut draft.enabled, Some(field.flag()? && before))
        },
    },
    Key {
        name: "disabled",
        shape: Shape::Flag,
        doc: "The same the other way round, as some hosts write it.",
        example: "true",
        set: |draft, field| {
            let before = draft.enabled.unwrap_or(true);
            put(&mut draft.enabled, Some(!field.flag()? && before))
        },
    },
    Key {
        name: "required",
        shape: Shape::Flag,
        doc: "Whether listing all servers fails where this one cannot be reached (exit code 4), and an embedding program's \
              wait for what it needs; false unless said.",
        example: "true",
        set: |draft, field| put(&mut draft.need, Some(if field.flag()? { Need::Required } else { Need::Optional })),
    },
    Key {
        name: "era",
        shape: Shape::Word(&["auto", "legacy", "modern"]),
        doc: "Which revisions are spoken: `legacy` is 2025-11-25 and older, `modern` 2026-07-28; \
              `auto` finds out and remembers.",
        example: r#""legacy""#,
        set: |draft, field| put(&mut draft.era, Some(field.word(ERAS, Shape::Word(&["auto", "legacy", "modern"]))?)),
    },
    Key {
        name: "timeouts",
        shape: Shape::Times(CLOCKS),
        doc: "How long connecting (30 s), a call without a sign of life (5 min) and a call in all (30 min) may take.",
        example: r#"{"connect": "10s", "idle": "2m", "total": "1h"}"#,
        set: |draft, field| put(&mut draft.timeouts, timeouts(field)?),
    },
    Key {
        name: "includeTools",
        shape: Shape::Texts,
        doc: "Only these tools, by the server's own names; `*` stands for any text.",
        example: r#"["read_*"]"#,
        set: |draft, field| add_tools(draft, field, only),
    },
    Key {
        name: "excludeTools",
        shape: Shape::Texts,
        doc: "Never these tools, even if they are included.",
        example: r#"["delete_*"]"#,
        set: |draft, field| add_tools(draft, field, all_but),
    },
    Key {
        name: "includePrompts",
        shape: Shape::Texts,
        doc: "Only these prompts.",
        example: r#"["review"]"#,
        set: |draft, field| add_prompts(draft, field, only),
    },
    Key {
        name: "excludePrompts",
        shape: Shape::Texts,
        doc: "Never these prompts.",
        example: r#"["draft-*"]"#,
        set: |draft, field| add_prompts(draft, field, all_but),
    },
    Key {
        name: "tools",
        shape: Shape::FlagOrTexts,
        doc: "Whether the server's tools are offered, true unless said; a list is the same as `includeTools`.",
        example: "false",
        set: |draft, field| match field.flag() {
            Ok(on) => put(&mut draft.filters.tools, offered(on)),
            Err(_) => add_tools(draft, field, only).map_err(|_| field.wrong(Shape::FlagOrTexts)),
        },
    },
    Key {
        name: "resources",
        shape: Shape::Flag,
        doc: "Whether the server's resources are offered; true unless said.",
        example: "false",
        set: |draft, field| put(&mut draft.filters.resources, offered(field.flag()?)),
    },
    Key {
        name: "prompts",
        shape: Shape::Flag,
        doc: "Whether the server's prompts are offered; true unless said.",
        example: "false",
        set: |draft, field| put(&mut draft.filters.prompts, offered(field.flag()?)),
    },
    Key {
        name: "retries",
        shape: Shape::Count,
        doc: "How often in a row connecting is tried again before the server counts as failed; without it, for ever, \
              at most every 30 seconds.",
        example: "3",
        set: |draft, field| put(&mut draft.retries, Some(field.count()?)),
    },
    Key {
        name: "lazy",
        shape: Shape::Flag,
        doc: "Whether the server is connected when it is first needed instead of at the start.",
        example: "true",
        set: |draft, field| put(&mut draft.start, Some(if field.flag()? { Start::WhenNeeded } else { Start::AtOnce })),
    },
    Key {
        name: "idleStop",
        shape: Shape::Time,
        doc: "Disconnects a server that nobody has used for this long; the next call connects it again.",
        example: r#""10m""#,
        set: |draft, field| put(&mut draft.idle_stop, Some(field.time()?)),
    },
    Key {
        name: "sharing",
        shape: SHARINGS,
        doc: "Who of the gateway's clients shares a connection or process, where the server keeps a session: each `caller` \
              has its own; `shared` is one for all who cannot be asked anything; `session` is one for each session of a \
              client. `caller` unless said.",
        example: r#""shared""#,
        set: |draft, field| put(&mut draft.sharing, Some(field.word(SHARING, SHARINGS)?)),
    },
    Key {
        name: "description",
        shape: Shape::Text,
        doc: "A sentence about the server for people.",
        example: r#""Our tickets""#,
        set: |draft, field| put(&mut draft.description, Some(field.text()?.to_owned())),
    },
];

/// Keys other hosts know: what becomes of them here.
pub(crate) const OF_OTHERS: &[(&str, &str)] = &[
    ("allowedTools", "write `includeTools`"),
    ("alwaysAllow", "approvals are not taken over"),
    ("authProviderType", "write `auth`"),
    ("autoApprove", "approvals are not taken over"),
    ("available_tools", "write `includeTools`"),
    ("baseUrl", "write `url`"),
    ("bearerTokenEnv", "write `auth`"),
    ("bearer_token_env_var", "write `auth`"),
    ("blockedTools", "write `excludeTools`"),
    ("bundled", "it says nothing to us"),
    ("cmd", "write `command` and `args`"),
    ("connectionTimeout", "write `timeouts`"),
    ("dev", "it says nothing to us"),
    ("disabledTools", "write `excludeTools`"),
    ("disabled_tools", "write `excludeTools`"),
    ("display_name", "the label is the name"),
    ("enabled_tools", "write `includeTools`"),
    ("env_http_headers", "write `headers`"),
    ("env_keys", "write `env`"),
    ("env_vars", "write `env`"),
    ("environment", "write `env`"),
    ("envs", "write `env`"),
    ("gallery", "it says nothing to us"),
    ("headersHelper", "no program is run for headers"),
    ("httpUrl", "write `url` and `type`"),
    ("http_headers", "write `headers`"),
    ("icon", "it says nothing to us"),
    ("lifecycle", "write `lazy` or `idleStop`"),
    ("metadata", "it says nothing to us"),
    ("name", "the label is the name"),
    ("protocolEra", "write `era`"),
    ("protocolVersion", "write `era`"),
    ("remote", "it says nothing to us"),
    ("requestTimeout", "write `timeouts`"),
    ("roots", "they are not configured per server"),
    ("sandbox", "programs are not confined here"),
    ("sandboxEnabled", "programs are not confined here"),
    ("serverUrl", "write `url`"),
    ("settings", "it says nothing to us"),
    ("startup_timeout_ms", "write `timeouts`"),
    ("startup_timeout_sec", "write `timeouts`"),
    ("timeout", "hosts disagree about its unit; write `timeouts`"),
    ("tool_timeout_sec", "write `timeouts`"),
    ("trust", "approvals are not taken over"),
    ("uri", "write `url`"),
    ("version", "it says nothing to us"),
];

#[cfg(test)]
mod tests {
    use super::{KIND, KINDS};
    use crate::shape::Shape;

    #[test]
    fn every_word_for_a_kind_is_described() {
        let Shape::WordOrAlias(words, aliases) = KIND else { panic!("words") };
        let described: Vec<&str> = words.iter().chain(aliases).copied().collect();
        assert!(KINDS.iter().all(|(word, _)| described.contains(word)));
        assert_eq!(KINDS.len(), described.len());
    }
}

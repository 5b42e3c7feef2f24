//! Which commands can widen what servers, clients and models may do, and their refusal to servers.
//!
//! A server runs as the user and could run our own commands to approve its calls. [`Command::effect`] classifies every
//! command; [`refuse_servers`] is called once, before a command runs. A server can still edit files of the user: see
//! `docs/security.md`.

use toolway_host::keeper::Descent;

use crate::{args::Command, exit_code::ExitCode, report::Report};

/// What a command can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads, makes calls that policy decides about, or takes rights away.
    Ordinary,
    /// It changes configuration, keys, sign-ins, secrets or saved approvals so that more may be possible afterwards, or it
    /// answers in place of the user. Only the user may run it.
    Widens,
}

impl Command {
    /// What the command can change. A command with subcommands decides by them.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Self::Servers(args) => args.effect(),
            Self::Clients(args) => args.effect(),
            Self::Config(args) => args.effect(),
            Self::Inbox(args) => args.effect(),
            Self::Policy(args) => args.effect(),
            Self::Trust(args) => args.effect(),
            Self::Roots(args) => args.effect(),
            Self::Models(args) => args.effect(),
            Self::Assistants(args) => args.effect(),
            Self::Store(args) => args.effect(),
            Self::Calls(args) => args.effect(),
            // A console session answers in place of the user, and a sign-in gives servers a token.
            Self::Console(_) | Self::Login(_) => Effect::Widens,
            // At a terminal it offers to copy what it finds, and a server can open one.
            Self::Import(_) => Effect::Widens,
            // A name is enough to refer to a secret, so even the list is for the user only.
            Self::Secret(_) => Effect::Widens,
            Self::Demo(_)
            | Self::Tools(_)
            | Self::Call(_)
            | Self::Resources(_)
            | Self::Prompts(_)
            | Self::Complete(_)
            | Self::Ping(_)
            | Self::Rpc(_)
            | Self::Status(_)
            | Self::Doctor(_)
            | Self::Serve(_)
            | Self::Logout(_)
            | Self::Auth(_)
            | Self::Chat(_)
            | Self::Run(_)
            | Self::History(_)
            | Self::Tasks(_)
            | Self::Audit(_)
            | Self::Sample(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Reference(_)
            | Self::Candidates(_) => Effect::Ordinary,
        }
    }
}

/// Refuses a command that widens rights if this process is a server, or was started by one.
pub(crate) fn refuse_servers(effect: Effect, own: impl FnOnce() -> Descent) -> Result<(), Report> {
    if effect == Effect::Ordinary {
        return Ok(());
    }
    let reason = match own() {
        Descent::Independent => return Ok(()),
        Descent::Marked => "its hard limit on file locks (`ulimit -Hx`) is that of a server's process".to_owned(),
        Descent::Ancestor { pid } => format!("process {pid}, which keeps servers, has started it"),
        Descent::Unknown => "its ancestors cannot be read in `/proc`".to_owned(),
    };
    let message = format!(
        "only you can run this command, because it can widen what servers and clients may do; this process was started \
         by a server of Toolway: {reason}"
    );
    Err(Report::new(ExitCode::Denied, "started_by_server", message).hint("run it in a terminal of your own"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use toolway_host::keeper::Descent;

    use super::{Effect, refuse_servers};
    use crate::command_line;

    fn effect(line: &str) -> Effect {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        command_line::parse(&words).unwrap_or_else(|error| panic!("{line}: {error}")).command.effect()
    }

    #[test]
    fn commands_that_widen_rights_are_classified() {
        for line in [
            "toolway servers add files --url https://example.com/mcp",
            "toolway servers update files --url https://example.com/mcp",
            "toolway servers enable files",
            "toolway servers remove files",
            "toolway servers accept files",
            "toolway clients add editor",
            "toolway clients rotate editor",
            "toolway clients update editor --all-servers",
            "toolway import cursor --copy",
            "toolway import cursor",
            "toolway policy allow files.read",
            "toolway trust allow 01 --unattended",
            "toolway config init",
            "toolway config reload",
            "toolway inbox answer 01",
            "toolway calls settle 01 --did-not-happen",
            "toolway trust remove 01",
            "toolway trust server files full",
            "toolway trust lock",
            "toolway trust folder add /srv full",
            "toolway trust folder remove /srv",
            "toolway console",
            "toolway login files",
            "toolway secret set token",
            "toolway store restore backup.db",
            "toolway store backup backup.db --with-secrets",
            "toolway secret list",
            "toolway secret move files",
            "toolway secret remove token",
            "toolway models set anthropic claude-example",
            "toolway assistants add helper",
            "toolway assistants set helper --approval auto",
            "toolway assistants remove helper",
            "toolway roots add /srv",
            "toolway roots remove /srv",
        ] {
            assert_eq!(effect(line), Effect::Widens, "{line}");
        }
        for line in [
            "toolway servers",
            "toolway servers disable files",
            "toolway servers revoke files",
            "toolway clients list",
            "toolway clients revoke editor",
            "toolway config show",
            "toolway inbox list",
            "toolway inbox decline 01",
            "toolway calls list",
            "toolway policy show",
            "toolway policy test rules.json --since 7d",
            "toolway trust list",
            "toolway trust show files",
            "toolway trust check",
            "toolway logout files",
            "toolway serve",
            "toolway call files.read",
            "toolway models list",
            "toolway assistants",
            "toolway assistants show helper",
            "toolway roots",
            "toolway roots list --client editor",
            "toolway store backup backup.db",
        ] {
            assert_eq!(effect(line), Effect::Ordinary, "{line}");
        }
    }

    #[test]
    fn servers_are_refused_what_widens_rights_and_nothing_else() {
        for own in [Descent::Marked, Descent::Ancestor { pid: 7 }, Descent::Unknown] {
            let report = refuse_servers(Effect::Widens, || own).unwrap_err();
            assert!(report.message.contains("started by a server of Toolway"), "{report:?}");
            refuse_servers(Effect::Ordinary, || own).unwrap();
        }
        refuse_servers(Effect::Widens, || Descent::Independent).unwrap();
    }
}

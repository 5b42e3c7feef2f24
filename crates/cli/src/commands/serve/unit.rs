//! `toolway serve --print-unit`: a systemd unit that runs the gateway as a user of its own.

use std::path::Path;

/// What the unit starts.
pub(super) struct Unit<'a> {
    pub(super) program: &'a Path,
    /// Options of `serve` and their values.
    pub(super) options: Vec<String>,
}

impl std::fmt::Display for Unit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = quoted(&self.program.display().to_string());
        let options: String = self.options.iter().map(|word| format!(" {}", quoted(word))).collect();
        f.write_str(&TEMPLATE.replace("{program}", &program).replace("{options}", &options))
    }
}

/// What is left out on purpose: `MemoryDenyWriteExecute` (Node and other runtimes compile at run time), `RestrictNamespaces`
/// (browsers isolate their pages with them) and `ProtectProc` (the processes before ours show who started a command).
const TEMPLATE: &str = "\
# /etc/systemd/system/toolway.service
[Unit]
Description=Toolway gateway
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=toolway
Group=toolway
ExecStart={program} serve{options}
ExecReload={program} config reload
Restart=on-failure
RestartSec=2
# The gateway ends its calls and servers; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=30

# The configuration is /etc/toolway/toolway.json, the state /var/lib/toolway.
Environment=HOME=/var/lib/toolway XDG_CONFIG_HOME=/etc XDG_STATE_HOME=/var/lib XDG_CACHE_HOME=/var/cache
ConfigurationDirectory=toolway
StateDirectory=toolway
StateDirectoryMode=0700
CacheDirectory=toolway
CacheDirectoryMode=0700
UMask=0077
LimitNOFILE=65536
# Encrypts the vault with a passphrase instead of a key file beside it.
#LoadCredential=toolway-vault-passphrase:/etc/toolway/vault-passphrase

# Servers run with the same restrictions. Folders that they write to are added here.
#ReadWritePaths=/srv/documents
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
PrivateDevices=true
ProtectClock=true
ProtectControlGroups=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
NoNewPrivileges=true
CapabilityBoundingSet=
LockPersonality=true
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
";

/// A word of a command line in a unit, with `%`, `$` and what quotes it escaped; quoted if needed.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = escaped == word && !word.is_empty() && !word.contains(|letter: char| " \t'".contains(letter));
    if plain { escaped } else { format!("\"{escaped}\"") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Unit;

    #[test]
    fn words_of_the_command_line_are_quoted() {
        let options = ["--config", "/etc/50%.json", "--listen", "0.0.0.0:7717"].map(str::to_owned).to_vec();
        let unit = Unit { program: Path::new("/opt/my tools/toolway"), options }.to_string();
        let start = r#"ExecStart="/opt/my tools/toolway" serve --config "/etc/50%%.json" --listen 0.0.0.0:7717"#;
        assert!(unit.contains(&format!("{start}\n")), "{unit}");
    }
}

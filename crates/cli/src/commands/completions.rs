//! `toolway completions`: completion scripts, and the hidden command that they call.

use std::ffi::OsString;

use clap::ValueEnum;
use toolway_config::Environment;

use crate::{completion, exit_code::ExitCode, output::Output};

/// Print a completion script for a shell
///
/// Completes commands, options, servers, and cached tools with the names of their arguments. Does not connect to servers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Called by the scripts with the words so far, the last one unfinished
#[derive(Debug, clap::Args)]
pub(crate) struct CandidatesArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

const EXAMPLES: &str = "\
Examples:
  source <(toolway completions bash)
  toolway completions zsh > ~/.zfunc/_toolway
  toolway completions fish > ~/.config/fish/completions/toolway.fish";

/// Bash breaks words at `=`, `:` and `@`; the script splits the line at spaces instead and removes the part that bash keeps.
const BASH: &str = r#"_toolway() {
    local line=${COMP_LINE:0:COMP_POINT} words current kept
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    kept=${current%"${current##*[=:@]}"}
    COMPREPLY=()
    local candidate
    while IFS=$'\t' read -r candidate _; do
        COMPREPLY+=("${candidate#"$kept"}")
    done < <(toolway __complete -- "${words[@]:1}" 2>/dev/null)
    [[ ${COMPREPLY[0]-} == *[.=] ]] && compopt -o nospace
}
complete -o default -F _toolway toolway"#;

/// Works both as an autoloaded function file and when sourced.
const ZSH: &str = r#"#compdef toolway
_toolway() {
    local -a candidates
    candidates=(${(f)"$(toolway __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    candidates=(${candidates%%$'\t'*})
    if (( ${#candidates} )); then
        compadd -Q -S '' -- ${(M)candidates:#*[.=]}
        compadd -Q -- ${candidates:#*[.=]}
    else
        _files
    fi
}
if [[ ${funcstack[1]} == _toolway ]]; then
    _toolway "$@"
else
    compdef _toolway toolway
fi"#;

const FISH: &str = "\
complete -c toolway -f -a '(toolway __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c toolway -l config -r -F
complete -c toolway -l cwd -r -F
complete -c toolway -l save -r -F";

pub(crate) fn run(args: &CompletionsArgs, output: &mut Output) -> ExitCode {
    output.line(match args.shell {
        Shell::Bash => BASH,
        Shell::Fish => FISH,
        Shell::Zsh => ZSH,
    });
    ExitCode::Ok
}

pub(crate) fn candidates(args: &CandidatesArgs, environment: &Environment, output: &mut Output) -> ExitCode {
    let words: Vec<String> = args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    for candidate in completion::candidates(&words, environment) {
        output.line(&candidate);
    }
    ExitCode::Ok
}

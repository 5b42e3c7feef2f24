//! Completion in real shells: the line after Tab.

use std::process::Command;

use crate::home::{Home, Ran};

/// Types lines into an interactive zsh, each followed by Tab, and prints the completed line. It starts when the line editor
/// is ready; before that the terminal handles some keys itself.
const ZSH: &str = r#"
zmodload zsh/zpty zsh/zselect
await() { for try in {1..1000}; do eval "$1" && return; zselect -t 2; done; print -r "never: $1"; exit 1 }
lines() { [[ -e $HOME/told ]] && told=(${(f)"$(<$HOME/told)"}) || told=(); (( ${#told} == $1 )) }
zpty shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT=; $SETUP
tell() { print -r -- \"<\$BUFFER>\" >> $HOME/told; BUFFER=; }; zle -N tell; bindkey '^X^R' tell
zle-line-init() { : > $HOME/ready; }; zle -N zle-line-init"
await '[[ -e $HOME/ready ]]'
for line in "$@"; do
    (( number += 1 ))
    zpty -w -n shell "$line"$'\t\C-x\C-r'
    await "lines $number"
done
zpty -d shell
print -rl -- $told
"#;

/// A home with a sample server whose tools are cached.
fn home() -> Home {
    let home = Home::with_sample();
    home.run(&["tools", "sample"]).ok();
    home
}

fn run(home: &Home, shell: &str, words: &[&str], setup: &str) -> String {
    let mut command = Command::new(shell);
    command.args(words).env_clear().current_dir(home.path("")).env("SETUP", setup).env("TERM", "dumb");
    for (name, value) in home.command(&[]).get_envs() {
        command.env(name, value.unwrap());
    }
    let ran = command.output().unwrap_or_else(|error| panic!("{shell}: {error}; ./test installs it"));
    Ran::of(&ran).ok().to_owned()
}

#[test]
fn bash_completes() {
    let home = home();
    let script = home.run(&["completions", "bash"]);
    for (line, replies) in
        [("toolway call sample.e", "sample.echo"), ("toolway @sam", "sample"), ("toolway call sample.add a=1 b", "b=")]
    {
        let asked = format!(
            "compopt() {{ :; }}\n{}\nCOMP_LINE='{line}' COMP_POINT={}\n_toolway\necho \"${{COMPREPLY[*]}}\"",
            script.ok(),
            line.len()
        );
        assert_eq!(run(&home, "bash", &["--norc", "-c", &asked], "").trim_end(), replies, "{line}");
    }
}

#[test]
fn zsh_completes_autoloaded_and_sourced() {
    for setup in [
        "fpath=($HOME/functions $fpath); autoload -Uz compinit; compinit -u -D",
        "autoload -Uz compinit; compinit -u -D; source $HOME/functions/_toolway",
    ] {
        let home = home();
        home.write("functions/_toolway", home.run(&["completions", "zsh"]).ok());
        let lines = ["toolway pi", "toolway call sample.e", "toolway @sam", "toolway call sample.add a=1 b"];
        let words: Vec<&str> = ["-f", "-c", ZSH, "zsh"].into_iter().chain(lines).collect();
        assert_eq!(
            run(&home, "zsh", &words, setup),
            "<toolway ping >\n<toolway call sample.echo >\n<toolway @sample >\n<toolway call sample.add a=1 b=>\n",
            "{setup}"
        );
    }
}

#[test]
fn fish_completes_names_and_files() {
    let home = home();
    home.write(".config/fish/completions/toolway.fish", home.run(&["completions", "fish"]).ok());
    home.write("notes.json", "{}");
    for (line, replies) in [
        ("toolway call sample.e", "sample.echo\n"),
        ("toolway @sam", "@sample\n"),
        ("toolway call sample.add a=1 b", "b=\n"),
        ("toolway pi", "ping\tPing a server and show its protocol revision\n"),
        ("toolway --config not", "notes.json\n"),
        ("toolway call sample.echo not", ""),
    ] {
        assert_eq!(run(&home, "fish", &["-c", &format!("complete -C '{line}'")], ""), replies, "{line}");
    }
}

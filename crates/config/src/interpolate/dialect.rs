//! Reference syntax of each host.

/// Forms of reference; each dialect supports some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `${NAME}`
    Braced,
    /// `${NAME:-default}`
    Default,
    /// `${env:NAME}`
    Env,
    /// `${file:path}`
    File,
    /// `${keychain:service/entry}`
    Keychain,
    /// `${secret:NAME}`
    Secret,
    /// `${input:id}`
    Input,
    /// `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`, `${pathSeparator}`, `${/}`
    Editor,
    /// `$NAME`
    Bare,
    /// `$env:NAME`
    DollarEnv,
    /// `{env:NAME}` and `{file:path}`
    Curly,
    /// `$${`, a literal `${`.
    Escape,
    /// A whole string of `keychain:service/entry`, `file:/path` or `file:~/path`.
    Whole,
}

/// Reference syntax of the files of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// No references.
    Literal,
    /// Toolway's own: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${file:path}`, `${keychain:service/entry}`,
    /// `${secret:NAME}`; `$${` is `${`.
    Toolway,
    /// Toolway's own for values that may be secret: also a whole value of `keychain:service/entry` or `file:/path`.
    ToolwayValue,
    /// `${NAME}` and `${NAME:-default}`.
    Shell,
    /// `${NAME}` alone.
    Braces,
    /// `$NAME`, `${NAME}` and `${NAME:-default}`.
    Gemini,
    /// `${env:NAME}` and the folders of an editor.
    Cursor,
    /// The same, and `${input:id}`.
    VsCode,
    /// `${env:NAME}` alone.
    Roo,
    /// `${env:NAME}` and `${file:/path}`.
    Windsurf,
    /// `{env:NAME}` and `{file:path}`.
    Opencode,
    /// `${NAME}`, `${NAME:-default}` and `$env:NAME`.
    Mcporter,
}

impl Dialect {
    pub(super) fn knows(self, form: Form) -> bool {
        self.forms().contains(&form)
    }

    fn forms(self) -> &'static [Form] {
        match self {
            Self::Literal => &[],
            Self::Toolway => {
                &[Form::Braced, Form::Default, Form::Env, Form::File, Form::Keychain, Form::Secret, Form::Escape]
            }
            Self::ToolwayValue => &[
                Form::Braced,
                Form::Default,
                Form::Env,
                Form::File,
                Form::Keychain,
                Form::Secret,
                Form::Escape,
                Form::Whole,
            ],
            Self::Shell => &[Form::Braced, Form::Default],
            Self::Braces => &[Form::Braced],
            Self::Gemini => &[Form::Braced, Form::Default, Form::Bare],
            Self::Cursor => &[Form::Env, Form::Editor],
            Self::VsCode => &[Form::Env, Form::Editor, Form::Input],
            Self::Roo => &[Form::Env],
            Self::Windsurf => &[Form::Env, Form::File],
            Self::Opencode => &[Form::Curly],
            Self::Mcporter => &[Form::Braced, Form::Default, Form::DollarEnv],
        }
    }
}

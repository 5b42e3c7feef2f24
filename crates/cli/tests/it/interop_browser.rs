//! A sign-in with a real browser: Chromium, opened by the program, at an authorization server with a consent page.

use std::{process::ExitStatus, thread, time::Duration};

use toolway_testkit::{
    authorization::{Endpoint, Quirk},
    chromium::Chromium,
};

use crate::{sign_in_fixture::SignInFixture, terminal::Terminal};

/// A busy machine takes seconds to start a browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// Signs in on a terminal and presses this button in the opened browser; returns the exit status, the terminal output and
/// the final page.
fn pressing(button: &'static str, fixture: &SignInFixture) -> (ExitStatus, String, String) {
    fixture.login.set_quirks([Quirk::ConsentPage]);
    let browser = Chromium::in_folder(&fixture.home.folder("browser")).unwrap();
    let mut command = fixture.home.command(&["login", "api", "-o", "human"]);
    command.env("BROWSER", browser.program());
    let user = thread::spawn(move || {
        let mut tab = browser.tab()?;
        tab.press(button)?;
        let told = tab.text_at("/callback")?;
        tab.close().map(|()| told)
    });
    let (status, shown) = Terminal::start(command).end(PATIENCE);
    (status, shown, user.join().unwrap().unwrap())
}

#[test]
fn consent_in_chromium_signs_in() {
    let fixture = SignInFixture::new();
    let (status, shown, told) = pressing("agree", &fixture);
    assert!(status.success(), "{shown}");
    assert!(shown.contains(&format!("Signed in to `api` at {}", fixture.login.issuer())), "{shown}");
    assert_eq!(told, "You are signed in. You can close this page.");
    assert_eq!((fixture.login.count(Endpoint::Page), fixture.login.count(Endpoint::Code)), (2, 1));
    fixture.home.run(&["tools", "api"]).ok();
}

#[test]
fn refusal_in_chromium_does_not_sign_in() {
    let fixture = SignInFixture::new();
    let (status, shown, told) = pressing("refuse", &fixture);
    assert_eq!(status.code(), Some(3), "{shown}");
    assert!(shown.contains("the sign-in was refused: `access_denied`"), "{shown}");
    assert_eq!(told, "You are not signed in. The program that started the sign-in shows the reason.");
    assert_eq!(fixture.login.count(Endpoint::Code), 0);
    fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");
}

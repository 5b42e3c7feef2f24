//! A real browser signs somebody in: Chromium, opened by the program, at an authorization server with buttons.

use std::{process::ExitStatus, thread, time::Duration};

use toolway_testkit::{
    authorization::{Endpoint, Quirk},
    chromium::Chromium,
};

use crate::{terminal::Terminal, world::World};

/// A busy machine takes seconds to start a browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody signs in at a terminal and presses this button in the browser that is opened; what came of it there, and what
/// the browser showed in the end.
fn pressing(button: &'static str, world: &World) -> (ExitStatus, String, String) {
    world.login.told([Quirk::Button]);
    let browser = Chromium::in_folder(&world.home.folder("browser")).unwrap();
    let mut command = world.home.command(&["login", "api", "-o", "human"]);
    command.env("BROWSER", browser.program());
    let person = thread::spawn(move || {
        let mut tab = browser.tab()?;
        tab.press(button)?;
        let told = tab.text_at("/callback")?;
        tab.close().map(|()| told)
    });
    let (status, shown) = Terminal::start(command).end(PATIENCE);
    (status, shown, person.join().unwrap().unwrap())
}

#[test]
fn a_person_agrees_in_chromium_and_is_signed_in() {
    let world = World::new();
    let (status, shown, told) = pressing("agree", &world);
    assert!(status.success(), "{shown}");
    assert!(shown.contains(&format!("Signed in to `api` at {}", world.login.issuer())), "{shown}");
    assert_eq!(told, "You are signed in. You can close this page.");
    assert_eq!((world.login.count(Endpoint::Page), world.login.count(Endpoint::Code)), (2, 1));
    world.home.run(&["tools", "api"]).ok();
}

#[test]
fn a_person_refuses_in_chromium_and_is_not_signed_in() {
    let world = World::new();
    let (status, shown, told) = pressing("refuse", &world);
    assert_eq!(status.code(), Some(3), "{shown}");
    assert!(shown.contains("The sign-in was refused: access_denied."), "{shown}");
    assert_eq!(told, "You are not signed in. The program that asked for it says why.");
    assert_eq!(world.login.count(Endpoint::Code), 0);
    world.home.run(&["tools", "api"]).failed(3, "unauthorized");
}

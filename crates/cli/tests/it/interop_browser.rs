//! A real browser signs somebody in: Chromium, opened by the program, at an authorization server with a button.

use std::{process::Command, thread, time::Duration};

use toolway_testkit::{
    authorization::{Endpoint, Quirk},
    chromium::Chromium,
};

use crate::world::World;

/// A busy machine takes seconds to start a browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sign-in at a terminal; the browser is what opens addresses there.
fn login(world: &World, browser: &Chromium) -> Command {
    let mut command = world.home.command(&["login", "api", "-o", "human"]);
    command.env("BROWSER", browser.program());
    command
}

#[test]
fn a_person_agrees_in_chromium_and_is_signed_in() {
    let world = World::new();
    world.login.told([Quirk::Button]);
    let browser = Chromium::in_folder(&world.home.folder("browser")).unwrap();
    let command = login(&world, &browser);
    let person = thread::spawn(move || {
        let mut tab = browser.tab()?;
        tab.press("agree")?;
        let told = tab.text_at("/callback")?;
        tab.close().map(|()| told)
    });
    let (status, shown) = world.home.run_at_terminal_for(command, "", PATIENCE);
    let told = person.join().unwrap().unwrap();
    assert!(status.success(), "{shown}");
    assert!(shown.contains(&format!("Signed in to `api` at {}", world.login.issuer())), "{shown}");
    assert_eq!(told.trim(), "The sign-in goes on in the program that asked for it. You can close this page.");
    assert_eq!((world.login.count(Endpoint::Page), world.login.count(Endpoint::Code)), (2, 1));
    world.home.run(&["tools", "api"]).ok();
}

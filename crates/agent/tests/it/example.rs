//! Runs the example of the embedding guide, which the guide shows as it is.

use std::process::Command;

const EXAMPLE: &str = include_str!("../../examples/agent.rs");
const GUIDE: &str = include_str!("../../../../docs/guide/embedding.md");

#[test]
fn agent_of_the_embedding_guide_calls_a_native_tool_and_one_of_a_process() {
    let here = std::env::current_exe().unwrap();
    let programs = here.ancestors().nth(2).unwrap();
    let example = programs.join("examples/agent");
    for program in [&example, &programs.join("toolway")] {
        assert!(program.exists(), "{} is missing: run ./test, which builds it", program.display());
    }
    let ran = Command::new(example).env("PATH", programs).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(said, "orders__count: succeeded\nsample__add: succeeded\nThere are 3 orders. One more makes 4.\n");
}

#[test]
fn embedding_guide_shows_the_example_as_it_is() {
    let (_, code) = EXAMPLE.split_once("\nfn main()").unwrap();
    assert!(code.lines().count() <= 30, "an agent takes no more than 30 lines");
    assert!(GUIDE.contains(&format!("fn main(){code}")), "docs/guide/embedding.md differs from examples/agent.rs");
}

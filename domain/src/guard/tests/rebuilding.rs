//! A table made from the one before it is the one that would be made from nothing.

use super::*;

/// Tools of two plugins; some functions of them have one model name.
const TOOLS: [(&str, &str); 4] = [("one", "a"), ("one", "a.b"), ("two", "a_"), ("two", "c")];
const NAMES: [&str; 5] = ["b__c", "c", "b", "_b", "d"];

#[derive(Clone, Debug)]
enum Step {
    Lists { tool: usize, complete: bool, functions: Vec<(usize, bool)> },
    Approves { tool: usize, taken: bool, functions: Vec<(usize, bool, u64)> },
    Runs { tool: usize, state: usize },
    Announces { tool: usize },
    Leaves { tool: usize, name: usize },
    Plugin { plugin: usize, state: usize },
    Blocks { tool: usize, name: usize },
    Forbids(bool),
    Ages(u64),
    TextComes,
    Set(bool),
    Edge(bool),
    Nothing,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (tool, name) = (0..TOOLS.len(), 0..NAMES.len());
    let one = prop_oneof![
        4 => (tool.clone(), any::<bool>(), prop::collection::vec((name.clone(), any::<bool>()), 0..4))
            .prop_map(|(tool, complete, functions)| Step::Lists { tool, complete, functions }),
        4 => (tool.clone(), prop::bool::weighted(0.9), prop::collection::vec((name.clone(), any::<bool>(), 0u64..3), 0..4))
            .prop_map(|(tool, taken, functions)| Step::Approves { tool, taken, functions }),
        2 => (tool.clone(), 0..4usize).prop_map(|(tool, state)| Step::Runs { tool, state }),
        1 => tool.clone().prop_map(|tool| Step::Announces { tool }),
        1 => (tool.clone(), name.clone()).prop_map(|(tool, name)| Step::Leaves { tool, name }),
        2 => (0..2usize, 0..4usize).prop_map(|(plugin, state)| Step::Plugin { plugin, state }),
        1 => (tool, name).prop_map(|(tool, name)| Step::Blocks { tool, name }),
        1 => any::<bool>().prop_map(Step::Forbids),
        1 => (1u64..4).prop_map(Step::Ages),
        1 => Just(Step::TextComes),
        1 => prop::bool::weighted(0.8).prop_map(Step::Set),
        1 => any::<bool>().prop_map(Step::Edge),
        1 => Just(Step::Nothing),
    ];
    prop::collection::vec(one, 1..24)
}

fn version_of(plugin: usize) -> PluginVersion {
    version(["one@1.0.0", "two@1.0.0"][plugin])
}

fn start() -> View {
    let mut node = Node::new();
    for (plugin, id) in TOOLS {
        let functions = [("d", "1"), ("c", "1")];
        node = node.serving(&format!("{plugin}@1.0.0"), id, command(&functions), snapshot(&functions[..1]));
    }
    node.view
}

fn serving(view: &mut View, tool_at: usize) -> Option<&mut ToolView> {
    let (plugin, id) = TOOLS[tool_at];
    match view.plugins.get_mut(&PluginName::parse(plugin).unwrap())? {
        PluginState::Serving(version) => version.tools.get_mut(&tool(id)),
        _ => None,
    }
}

fn text(first: bool) -> &'static str {
    if first { "1" } else { "2" }
}

#[expect(clippy::too_many_lines, reason = "one arm for each step")]
fn take(view: &mut View, step: &Step, whole: &View) {
    match step.clone() {
        Step::Lists { tool, complete, functions } => {
            let functions: Vec<(&str, &str)> =
                functions.iter().map(|(name, first)| (NAMES[*name], text(*first))).collect();
            if let Some(tool) = serving(view, tool) {
                tool.listing = Some(listing(complete, &functions));
                tool.relisting = None;
            }
        }
        Step::Approves { tool: at, taken, functions } => {
            let (plugin, id) = TOOLS[at];
            let functions = functions.iter().map(|(name, first, rank)| {
                (NAMES[*name].into(), FunctionTrust { hash: hash(text(*first)), rank: *rank })
            });
            let entry = ToolTrust { snapshot_taken: taken, functions: functions.collect(), origin: None };
            let mut all = (*view.trust).clone();
            let of_version = all.versions.entry(version(&format!("{plugin}@1.0.0"))).or_default();
            Arc::make_mut(of_version).tools.insert(tool(id), entry);
            view.trust = Arc::new(all);
        }
        Step::Runs { tool, state } => {
            let since = Timestamp::from_millis(7);
            if let Some(tool) = serving(view, tool) {
                tool.run = match state {
                    0 | 1 => RunState::Running,
                    2 => RunState::NotRunning { since, reason: "it crashed".into() },
                    _ => RunState::Unreachable { since, reason: "nobody there".into() },
                };
            }
        }
        Step::Announces { tool } => {
            if let Some(tool) = serving(view, tool) {
                tool.relisting = Some(Timestamp::from_millis(5));
            }
        }
        Step::Leaves { tool: at, name } => {
            let (plugin, id) = TOOLS[at];
            if let Some(PluginState::Serving(version)) =
                view.plugins.get_mut(&PluginName::parse(plugin).unwrap())
            {
                let why = LeftOut { code: Code::Twice, why: "it is listed twice".into() };
                version.left_out.insert(FunctionId::new(&tool(id), NAMES[name]), why);
            }
        }
        Step::Plugin { plugin, state } => {
            let version = version_of(plugin);
            let name = version.plugin.clone();
            let tools = TOOLS.iter().filter(|(of, _)| *of == name.as_str()).map(|(_, id)| tool(id)).collect();
            match state {
                0 => drop(view.plugins.remove(&name)),
                1 => {
                    let state = PluginState::Installing { version, tools, failed: None, earlier: None };
                    view.plugins.insert(name, state);
                }
                2 => drop(view.plugins.insert(name, PluginState::Unassigned { tools })),
                _ => drop(view.plugins.insert(name.clone(), whole.plugins[&name].clone())),
            }
        }
        Step::Blocks { tool: at, name } => {
            let (plugin, id) = TOOLS[at];
            let block = Block {
                target: Target::function(&format!("{id}.{}", NAMES[name])).unwrap(),
                is_fleet_wide: true,
                reason: "it leaks".into(),
                by: "ada".into(),
                at: Timestamp::from_millis(1),
            };
            let mut all = (*view.trust).clone();
            let of_version =
                Arc::make_mut(all.versions.entry(version(&format!("{plugin}@1.0.0"))).or_default());
            of_version.blocks.insert("b".into(), block);
            view.trust = Arc::new(all);
        }
        Step::Forbids(is) => {
            view.policy.forbidden_kinds = if is { vec![Kind::Command] } else { Vec::new() };
        }
        Step::Ages(max) => view.policy.command_listing_interval_ms = max * 1_000,
        Step::TextComes => view.texts = whole.texts.clone(),
        Step::Set(held) => {
            let waiting = SetState::Waiting { server: "server".into(), since: Timestamp::from_millis(1) };
            view.set = if held { SetState::Held } else { waiting };
        }
        Step::Edge(first) => view.edge = EdgeName::parse(if first { "eu-1" } else { "eu-2" }).unwrap(),
        Step::Nothing => {}
    }
}

/// All that a table says, in words.
fn described(table: &Table) -> Vec<String> {
    let mut lines = vec![format!("closed {:?}", table.closed())];
    lines.extend(table.functions().iter().map(|slot| format!("{slot:?}")));
    let mut slots: Vec<String> =
        table.slots.iter().map(|(name, slot)| format!("{name} is {}", slot.id)).collect();
    slots.sort();
    lines.extend(slots);
    lines.extend(table.tools.iter().map(|(prefix, what)| format!("{prefix} {what:?}")));
    let mut left_out: Vec<String> = table.left_out().iter().map(|one| format!("{one:?}")).collect();
    left_out.sort();
    lines.extend(left_out);
    lines
}

proptest! {
    #[test]
    fn a_table_made_from_the_one_before_is_the_one_made_from_nothing(steps in steps()) {
        let whole = start();
        let mut view = whole.clone();
        // It is on its way.
        view.texts.remove(&hash("1"));
        let mut table = Table::build(&view);
        for step in &steps {
            take(&mut view, step, &whole);
            table = table.rebuild(&view);
            prop_assert_eq!(described(&table), described(&Table::build(&view)), "after {:?}", step);
        }
    }
}

#[test]
fn a_change_of_one_tool_leaves_the_others_as_they_were() {
    let functions = [("hello", "1")];
    let mut node = Node::new();
    for (plugin, id) in [("one@1.0.0", "a"), ("two@1.0.0", "c")] {
        node = node.serving(plugin, id, command(&functions), snapshot(&functions));
    }
    let before = node.table();
    let listed = serving(&mut node.view, 0).unwrap();
    listed.listing = Some(listing(true, &[("hello", "2")]));
    let after = before.rebuild(&node.view);
    assert!(Arc::ptr_eq(before.slot("c.hello").unwrap(), after.slot("c.hello").unwrap()));
    assert!(before.permit("a.hello", NOW_MS).is_ok());
    assert_eq!(after.permit("a.hello", NOW_MS).unwrap_err().refusal.code, Code::Drifted);
}

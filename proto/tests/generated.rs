//! The committed code is what the `.proto` files generate; with `PINTLE_REGENERATE=1` it is written
//! anew instead. So building needs no protobuf compiler at all.

use std::path::Path;

#[test]
fn the_committed_code_is_what_the_protocol_files_generate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile([root.join("fleet/v1/fleet.proto")], [root]).unwrap();
    tonic_prost_build::configure()
        .bytes(".pintle.fleet.v1.PartUpdate.bodies")
        .bytes(".pintle.fleet.v1.Bodies.bodies")
        .skip_debug([".pintle.fleet.v1.Header"])
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    let name = "pintle.fleet.v1.rs";
    let generated = std::fs::read_to_string(out.path().join(name)).unwrap();
    let committed = root.join("src/generated").join(name);
    if std::env::var_os("PINTLE_REGENERATE").is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    let stored = std::fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        stored == generated,
        "{name} is stale: run `PINTLE_REGENERATE=1 cargo test --test generated` and commit it"
    );
}

//! The daemon's page in a real browser. The page's script must run under the page's security policy, and show the
//! actual rigs and runs.

use verbatim_tests::product::{Place, Running, program, run};
use verbatim_tests::{axe, browser};

const RIGS: &str = "config_version = 1\n\n[[rig]]\nname = \"broken\"\nkind = \"virtual\"\ndefects = [\"get-answered-at-level-2\"]\n\n\
                    [[rig]]\nname = \"gone\"\nkind = \"model\"\nsocket = \"nobody\"\n";
const CONFIG: &str =
    "config_version = 1\n[web]\naddress = \"127.0.0.1:0\"\n[[role]]\nrole = \"viewer\"\nwho = [\"web\"]\n";

fn seen(place: &Place, url: &str) -> String {
    browser::seen(place, url, &[])
}

#[test]
fn browser_shows_rigs_runs_and_report() {
    if !browser::is_here() {
        return;
    }
    let place = Place::new();
    let (rigs, config) = (place.write("rigs.toml", RIGS), place.write("c.toml", CONFIG));
    let socket = place.path("socket");
    let mut serve = place.command(program("verbatimd"));
    serve
        .arg("serve")
        .args([
            "--rig-file".as_ref(),
            rigs.as_os_str(),
            "--config".as_ref(),
            config.as_os_str(),
        ])
        .args(["--socket".as_ref(), socket.as_os_str()]);
    let daemon = Running::start(&mut serve);
    let log = daemon.says(" ms=");
    let address = log
        .split("web=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    let page = format!("http://{address}/");
    let before = seen(&place, &page);
    assert!(before.contains("No runs yet") && before.contains(">live<"), "{before}");

    let server = format!("--server unix:{}", socket.display());
    let judged = run(&mut place.verbatim(&format!("{server} run --rig broken c14-016-get-protect-2 --json")));
    assert_eq!(judged.code(), 1, "{judged}");
    let after = seen(&place, &page);
    for shown in [
        ">broken<",
        ">UNREACHABLE<",
        "no device model answers",
        ">FAIL<",
        "1 FAIL",
    ] {
        assert!(after.contains(shown), "{shown}: {after}");
    }
    // Check the page after its script has run, with the daemon's style sheet.
    let still = after.replace("<head>", &format!("<head><base href=\"{page}\">"));
    axe::finds_nothing(&place, &still);
    let id = after
        .split("href=\"runs/")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let report = seen(&place, &format!("{page}runs/{id}"));
    assert!(
        report.contains("c14-016-get-protect-2") && report.contains("C14-16"),
        "{report}"
    );

    let waiting = run(&mut place.verbatim(&format!("{server} run --rig gone --detach c14-024-node-info")));
    let progress = seen(&place, &format!("{page}{}", waiting.stdout.trim()));
    for shown in [">QUEUED<", "1 test, not yet begun", "href=\"../\""] {
        assert!(progress.contains(shown), "{shown}: {progress}");
    }
}

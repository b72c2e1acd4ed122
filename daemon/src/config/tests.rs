use super::*;
use crate::access::{Caller, Identity};

fn read(text: &str) -> Result<Config, String> {
    let text = format!("config_version = 1\n{text}");
    Config::read(Path::new("/etc/v/c.toml"), &text).map_err(|error| error.to_string())
}

const ROLE: &str = "\n[[role]]\nrole = \"operator\"\nwho = [\"cert:alice\"]\nrigs = [\"bench-*\"]\n";

#[test]
fn bad_limit_error_names_line() {
    let limits = |text: &str| read(&format!("[limits]\n{text}")).map(|config| config.limits);
    let seen = limits("connections = 10\ncalls_each = 2\n").unwrap();
    assert_eq!((seen.connections, seen.connections_each, seen.calls_each), (10, 10, 2));
    assert_eq!(read("").unwrap().limits, Limits::default());
    for (text, line, words) in [
        ("calls_each = 0\n", 3, "calls_each: expected 1 to 1000, seen 0"),
        (
            "connections = 9\nconnections_each = 10\n",
            4,
            "connections_each: expected 1 to 9, seen 10",
        ),
        ("connections = 1\n", 3, "connections: expected 2 to 100000, seen 1"),
    ] {
        let error = limits(text).unwrap_err();
        assert!(error.contains(&format!("line {line}: {words}")), "{error}");
    }
}

#[test]
fn paths_are_relative_to_config_file() {
    let listen = "[listen]\naddress = \"127.0.0.1:7443\"\ncert = \"s.pem\"\nkey = \"/k.pem\"\nclient_ca = \"ca.pem\"\n";
    let config = read(&format!("{listen}{ROLE}")).unwrap();
    let files = config.listen.unwrap().files;
    assert_eq!(files.cert, Path::new("/etc/v/s.pem"));
    assert_eq!((files.key.as_path(), files.crl), (Path::new("/k.pem"), None));
    let alice = Caller {
        who: Identity::Certificate("alice".into()),
        gid: None,
        from: String::new(),
    };
    assert_eq!(config.roles.role(&alice, "bench-1"), Some(Role::Operator));
    assert_eq!(config.roles.role(&alice, "other"), None);
}

#[test]
fn files_are_limited_by_default() {
    let keep = |text: &str| read(text).unwrap().keep.bytes;
    assert_eq!([keep(""), keep("[keep]\ndays = 2\n")], [Some(20 << 30); 2]);
    let limits = read("[keep]\ndays = 2\ngib = 3\n").unwrap().keep;
    assert_eq!(limits.age, Some(Duration::from_secs(2 * 86_400)));
    assert_eq!(limits.bytes, Some(3 << 30));
    assert!(read("[keep]\nweeks = 2\n").is_err());
}

#[test]
fn rejects_plain_tcp_even_on_loopback() {
    for asks in [
        "[listen]\naddress = \"127.0.0.1:7443\"\n",
        "[listen]\naddress = \"0.0.0.0:7443\"\ncert = \"c\"\nkey = \"k\"\n",
        "[listen]\naddress = \"127.0.0.1:1\"\ntls = false\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n",
        "[listen]\naddress = \"127.0.0.1:1\"\nplaintext = true\n",
    ] {
        let error = read(&format!("{asks}{ROLE}")).unwrap_err();
        assert!(
            error.contains("plain TCP is not offered, not even on a loopback address"),
            "{error}"
        );
        assert!(error.contains("/etc/v/c.toml, line "), "{error}");
    }
}

#[test]
fn error_names_line() {
    let listen = "[listen]\naddress = \"127.0.0.1:1\"\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n";
    let error = read(listen).unwrap_err();
    assert!(
        error.contains("line 2") && error.contains("no [[role]] names a certificate"),
        "{error}"
    );
    let error = read("[[role]]\nrole = \"operator\"\nwho = [\n \"alice\"]\n").unwrap_err();
    assert!(error.contains("line 5") && error.contains("cert:NAME"), "{error}");
    let error = read("[[role]]\nrole = \"boss\"\nwho = [\"uid:1\"]\n").unwrap_err();
    assert!(error.contains("line 3") && error.contains("viewer"), "{error}");
    let error = read("[[role]]\nrole = \"admin\"\nwho = [\"group:no-such-group\"]\n").unwrap_err();
    assert!(error.contains("there is no group"), "{error}");
    let error = read("colour = 1\n").unwrap_err();
    assert!(error.contains("colour"), "{error}");
    let error = Config::read(Path::new("c"), "config_version = 2\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected 1, seen 2"), "{error}");
}

#[test]
fn shared_store_needs_tls_and_hides_password() {
    let near = read("store = \"postgres:///verbatim?host=/run/postgresql\"\nhost = \"bench-a\"\n").unwrap();
    assert_eq!(near.store.unwrap().host, "bench-a");
    let secret = "store = \"postgres://verbatim:hunter2@127.0.0.1/verbatim\"\n";
    let config = read(secret).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    let far = secret.replace("127.0.0.1", "db.lab");
    let error = read(&far).unwrap_err();
    assert!(error.contains("over TLS only") && !error.contains("hunter2"), "{error}");
    let tls = "[store_tls]\nca = \"ca.pem\"\ncert = \"c.pem\"\nkey = \"k.pem\"\n";
    let tls = read(&format!("{far}{tls}")).unwrap().store.unwrap().tls.unwrap();
    assert_eq!(tls.ca, Path::new("/etc/v/ca.pem"));
    for wrong in ["mysql://h/d", "postgres://", "postgres://verbatim:hunter2@[::1/"] {
        let error = read(&format!("store = {wrong:?}\n")).unwrap_err();
        assert!(
            error.contains("line 2: store: expected a URL such as") && !error.contains("hunter2"),
            "{error}"
        );
    }
    assert!(read("host = \"a\"\n").unwrap_err().contains("needs the key store"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    let text = format!("config_version = 1\n{secret}");
    for (mode, may) in [(0o644, false), (0o640, true)] {
        std::fs::write(&file, &text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Config::load(Some(&file)).is_ok(), may, "{mode:o}");
    }
}

#[test]
fn daemon_owner_is_admin_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.toml");
    assert!(Config::load(Some(&absent)).is_err());
    let config = read("").unwrap();
    let own = Caller::user(geteuid().as_raw(), 0);
    assert_eq!(config.roles.role(&own, "r"), Some(Role::Admin));
}

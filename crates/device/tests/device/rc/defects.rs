//! Test of the defects' names. The qualification tests whether each defect is detected.

use verbatim_device::rc::RcDefect;

#[test]
fn defect_names_are_unique_kebab_case() {
    let mut names: Vec<_> = RcDefect::ALL.iter().map(|defect| defect.name()).collect();
    for &defect in RcDefect::ALL {
        assert_eq!(defect.to_string().parse(), Ok(defect));
        assert!(defect.about().ends_with('.'));
        let statement = defect.statement();
        assert!(
            ["C9-", "7.", "9.", "10.", "11.", "A17."]
                .iter()
                .any(|start| statement.starts_with(start)),
            "{statement}"
        );
        assert!(
            !defect
                .name()
                .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
    let management: Vec<_> = verbatim_device::Defect::ALL
        .iter()
        .map(|defect| defect.name())
        .collect();
    assert!(
        names.iter().all(|name| !management.contains(name)),
        "one name, one defect"
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RcDefect::ALL.len());
    assert!("no-such-defect".parse::<RcDefect>().is_err());
}

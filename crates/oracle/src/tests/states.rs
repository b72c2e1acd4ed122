//! The rules of a queue pair's states, on golden records of which one thing was altered.

use verbatim_record::Entry;
use verbatim_record::verbs::{Command, Reply, pb};

use super::verbs::broken;

/// The number of the first command that is so, with a reply that is so.
fn find(entries: &[Entry], is_it: impl Fn(&Command, &Reply) -> bool) -> u32 {
    let asked = |number: u32| {
        entries.iter().find_map(|entry| match entry {
            Entry::VerbsAsked(asked) if asked.number == number => Some(&asked.command),
            _ => None,
        })
    };
    let found = entries.iter().find_map(|entry| match entry {
        Entry::VerbsAnswered(answered) => {
            let is_so = asked(answered.number).is_some_and(|command| is_it(command, &answered.reply));
            is_so.then_some(answered.number)
        }
        _ => None,
    });
    found.expect("a command and its reply")
}

/// What is broken when another reply came to the first command that is so.
fn replied(record: &str, is_it: impl Fn(&Command, &Reply) -> bool, reply: &Reply) -> Vec<&'static str> {
    broken(record, |entries| {
        let number = find(entries, is_it);
        for entry in entries {
            match entry {
                Entry::VerbsAnswered(answered) if answered.number == number => answered.reply = reply.clone(),
                _ => {}
            }
        }
    })
}

fn done() -> Reply {
    Reply::Done(pb::Done {})
}

fn refused() -> Reply {
    Reply::Refused(pb::Refused {
        errno: 22,
        text: "no".into(),
    })
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(_))
}

#[test]
fn a_step_that_there_is_not_is_refused_and_one_that_there_is_taken() {
    let names = replied(
        "c09-modify-steps",
        |command, reply| matches!(command, Command::ModifyQp(_)) && is_refused(reply),
        &done(),
    );
    assert!(names.contains(&"step-refused") && names.contains(&"state"), "{names:?}");
    let to_init = |command: &Command, reply: &Reply| matches!(command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Init && !is_refused(reply));
    let names = replied("c09-modify-steps", to_init, &refused());
    assert!(names.contains(&"step-taken"), "{names:?}");
}

#[test]
fn a_queue_pair_says_where_its_steps_have_led() {
    let status = Reply::Status(pb::QpStatus {
        state: pb::QpState::Rts.into(),
        ..pb::QpStatus::default()
    });
    let names = replied(
        "c09-modify-steps",
        |command, _| matches!(command, Command::QueryQp(_)),
        &status,
    );
    assert_eq!(names, ["state"]);
}

#[test]
fn work_is_taken_when_it_can_be_done_and_not_before() {
    let early = |command: &Command, reply: &Reply| matches!(command, Command::PostSend(_)) && is_refused(reply);
    let names = replied("c09-modify-steps", early, &done());
    assert!(names.contains(&"work-refused"), "{names:?}");
    // The test posts in ERR too, under small numbers; in RTS it counts from 100 on.
    let later = |command: &Command, reply: &Reply| {
        matches!(command, Command::PostSend(post) if post.wr_id >= 100) && !is_refused(reply)
    };
    let names = replied("c09-modify-steps", later, &refused());
    assert!(names.contains(&"work-taken"), "{names:?}");
}

#[test]
fn a_host_may_refuse_what_a_device_takes() {
    let to_init = |command: &Command, reply: &Reply| {
        let is_it = matches!(command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Init);
        is_it && !is_refused(reply)
    };
    let send = |command: &Command, reply: &Reply| {
        matches!(command, Command::PostSend(post) if post.wr_id >= 100) && !is_refused(reply)
    };
    for (simulated, errno, is_broken) in [(true, 22, true), (true, 95, false), (false, 12, false)] {
        let refused = Reply::Refused(pb::Refused {
            errno,
            text: "no".into(),
        });
        for (rule, number_of) in [
            ("step-taken", to_init as fn(&Command, &Reply) -> bool),
            ("work-taken", send),
        ] {
            let names = broken("c09-modify-steps", |entries| {
                let number = find(entries, number_of);
                for entry in entries {
                    match entry {
                        Entry::Begin(begin) => begin.simulated = simulated,
                        Entry::VerbsAnswered(answered) if answered.number == number => answered.reply = refused.clone(),
                        _ => {}
                    }
                }
            });
            assert_eq!(
                names.contains(&rule),
                is_broken,
                "{rule}, simulated {simulated}, {errno}: {names:?}"
            );
        }
    }
}

#[test]
fn in_reset_nothing_is_sent_and_nothing_reported_that_was_not() {
    // Said earlier than it was, so that what came before it comes after it.
    let names = broken("c09-reset-again", |entries| {
        let is_reset = |entry: &Entry| {
            matches!(entry, Entry::VerbsAsked(asked)
                if matches!(&asked.command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Rts))
        };
        // That of the connection behind the first RESET, on which both sides ask.
        let at = (0..entries.len()).filter(|at| is_reset(&entries[*at])).nth(1);
        let at = at.expect("a second step to RTS");
        let Entry::VerbsAsked(asked) = &mut entries[at] else {
            return;
        };
        if let Command::ModifyQp(modify) = &mut asked.command {
            modify.state = pb::QpState::Err.into();
        }
    });
    assert!(names.contains(&"silent-state"), "{names:?}");
}

//! The rules for a drift schedule (spec 10 §9): five fields, optionally in a time zone.

use jiff::tz::TimeZoneDatabase;

/// Checks a schedule; the error says which field is wrong and why.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = schedule.trim();
    if schedule.starts_with('@') {
        return Err("words such as @daily are not supported; write five fields".to_owned());
    }
    let (zone, fields) = zone_and_fields(schedule)?;
    if let Some(zone) = zone {
        check_zone(zone)?;
    }
    let fields: Vec<&str> = fields.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "{} fields where five are expected: minute, hour, day of month, month, day of week",
            fields.len()
        ));
    }
    FIELDS.iter().zip(fields).try_for_each(|(field, text)| field.check(text))
}

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    /// Names for the values from `least` on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of month", least: 1, most: 31, names: &[] },
    Field {
        name: "month",
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    // 7 is Sunday, as well as 0.
    Field { name: "day of week", least: 0, most: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

impl Field {
    fn check(&self, text: &str) -> Result<(), String> {
        text.split(',').try_for_each(|part| self.check_part(part))
    }

    /// `*`, `n`, `n-m`, each with an optional `/step`.
    fn check_part(&self, part: &str) -> Result<(), String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        if let Some(step) = step {
            let positive = digits(step).is_some_and(|step| step > 0 && step <= u32::from(self.most));
            if !positive {
                return Err(format!("{}: step {step:?} is not between 1 and {}", self.name, self.most));
            }
        }
        if range == "*" {
            return Ok(());
        }
        match range.split_once('-') {
            None => self.value(range).map(|_| ()),
            Some((from, to)) if self.value(from)? <= self.value(to)? => Ok(()),
            Some(_) => Err(format!("{}: range {range:?} runs backwards", self.name)),
        }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let (least, most) = (u32::from(self.least), u32::from(self.most));
        let named = (least..).zip(self.names).find(|(_, name)| text.eq_ignore_ascii_case(name));
        named
            .map(|(value, _)| value)
            .or_else(|| digits(text).filter(|value| (least..=most).contains(value)))
            .ok_or_else(|| format!("{}: {text:?} is not between {least} and {most}", self.name))
    }
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn zone_and_fields(schedule: &str) -> Result<(Option<&str>, &str), String> {
    let Some(rest) = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) else {
        return Ok((None, schedule));
    };
    match rest.split_once(char::is_whitespace) {
        Some((zone, fields)) => Ok((Some(zone), fields)),
        None => Err("no fields after the time zone".to_owned()),
    }
}

/// The zones that the program carries with it, so that a schedule means the same on every machine.
fn check_zone(zone: &str) -> Result<(), String> {
    match TimeZoneDatabase::bundled().get(zone) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("unknown time zone {zone:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_with_lists_ranges_steps_names_and_zones_are_accepted() {
        for schedule in [
            "* * * * *",
            "0 6 * * *",
            "*/15 0-6,22 1,15 JAN-mar mon-fri",
            "CRON_TZ=Europe/Rome 30 5 * * 1-5",
            "TZ=America/Argentina/Ushuaia 0 0 1 * 7",
            "TZ=UTC 0 0 * * SUN",
            "5/20 * * * *",
        ] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn other_schedules_are_refused_with_the_field_that_is_wrong() {
        for (schedule, says) in [
            ("@daily", "@daily"),
            ("0 6 * *", "4 fields"),
            ("0 0 6 * * *", "6 fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "day of week"),
            ("* * * * fun", "day of week"),
            ("30-10 * * * *", "backwards"),
            ("*/0 * * * *", "step"),
            ("*/x * * * *", "step"),
            ("1,,2 * * * *", "minute"),
            ("? * * * *", "minute"),
            ("CRON_TZ=Mars/Olympus 0 6 * * *", "unknown time zone"),
            ("CRON_TZ= 0 6 * * *", "unknown time zone"),
            ("CRON_TZ=Europe/Rom 0 6 * * *", "unknown time zone"),
            ("CRON_TZ=Europe/Rome", "no fields"),
        ] {
            let error = check(schedule).expect_err(schedule);
            assert!(error.contains(says), "{schedule}: {error}");
        }
    }
}

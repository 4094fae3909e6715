//! Names of source files, as the user wants to see them.

/// Takes `.`, `..` and doubled slashes out of a path without asking the file system: the sources need not be here.
pub(super) fn normalised(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if is_absolute => {} // the root is its own parent
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if is_absolute {
        format!("/{joined}")
    } else if joined.is_empty() && !path.is_empty() {
        ".".to_owned()
    } else {
        joined
    }
}

/// Replaces the first prefix that fits, whole directories only.
pub(super) fn mapped(path: String, map: &[(String, String)]) -> String {
    map.iter()
        .find_map(|(old, new)| replaced(&path, old, new))
        .unwrap_or(path)
}

fn replaced(path: &str, old: &str, new: &str) -> Option<String> {
    if old.is_empty() {
        return None;
    }
    let old = old.trim_end_matches('/');
    let rest = path.strip_prefix(old)?;
    if rest.is_empty() {
        return Some(new.to_owned());
    }
    let rest = rest.strip_prefix('/')?;
    Some(format!("{}/{rest}", new.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::{mapped, normalised};

    #[test]
    fn dots_and_doubled_slashes_go() {
        for (path, expected) in [
            ("/a/./b//c.c", "/a/b/c.c"),
            ("/a/b/../c.c", "/a/c.c"),
            ("/../../c.c", "/c.c"),
            ("../x/../c.c", "../c.c"),
            ("../../c.c", "../../c.c"),
            ("./", "."),
            ("/", "/"),
            ("", ""),
            ("sub/other.h", "sub/other.h"),
        ] {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }

    #[test]
    fn prefixes_are_whole_directories() {
        let map = [
            ("/build/".to_owned(), "/home/me".to_owned()),
            ("/bu".to_owned(), "/wrong".to_owned()),
            ("/old".to_owned(), "/new/".to_owned()),
        ];
        for (path, expected) in [
            ("/build/a.c", "/home/me/a.c"),
            ("/builder/a.c", "/builder/a.c"),
            ("/old/x/a.c", "/new/x/a.c"),
            ("/old", "/new/"),
            ("a.c", "a.c"),
        ] {
            assert_eq!(mapped(path.to_owned(), &map), expected, "{path}");
        }
        let root = [("/".to_owned(), "/src".to_owned())];
        assert_eq!(mapped("/a.c".to_owned(), &root), "/src/a.c");
    }
}

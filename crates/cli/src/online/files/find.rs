//! Finds the file of a request's path.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use percent_encoding::percent_decode_str;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory of files to serve.
pub(super) struct Root {
    path: PathBuf,
    directory: File,
    /// The open files, by device and inode: any number of clients that download one share a descriptor.
    open: Mutex<HashMap<(u64, u64), Weak<File>>>,
}

/// The file or directory at a path.
pub(super) enum Found {
    /// A regular file.
    File(Opened),
    /// The list of a directory's files in HTML.
    Listing(String),
    /// A directory, named without a slash at the end.
    Directory,
    /// Nothing that may be served.
    Nothing,
    /// A file that this process may not read.
    Forbidden,
    /// No descriptors or no memory are available now.
    Busy,
}

/// An open regular file.
pub(super) struct Opened {
    /// The file, read at explicit offsets, because it is shared.
    pub file: Arc<File>,
    pub name: PathBuf,
    pub len: u64,
    pub modified: Option<SystemTime>,
}

impl From<io::Error> for Found {
    fn from(error: io::Error) -> Found {
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => Found::Forbidden,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Found::Busy,
            _ => Found::Nothing,
        }
    }
}

impl Root {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// If it is not a readable directory.
    pub(super) fn open(path: &Path) -> io::Result<Root> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty())?.into();
        Ok(Root { path, directory, open: Mutex::default() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the file or directory that the path of a request names. Neither `..` nor a link leads out of the
    /// root. Blocks on slow disks.
    pub(super) fn find(&self, path: &str) -> Found {
        let Ok(decoded) = percent_decode_str(path).decode_utf8() else { return Found::Nothing };
        if decoded.contains('\0') {
            return Found::Nothing;
        }
        let mut full = self.path.clone();
        for component in Path::new(decoded.trim_start_matches('/')).components() {
            match component {
                Component::Normal(name) => full.push(name),
                Component::CurDir => {}
                _ => return Found::Nothing,
            }
        }
        let slash = path.ends_with('/');
        let found = self.resolve(&full).and_then(|(full, is_directory)| match is_directory {
            false if slash => Ok(Found::Nothing),
            false => self.open_file(&full).map(Found::File),
            true if !slash => Ok(Found::Directory),
            true => match self.resolve(&full.join("index.html")) {
                Ok((index, _)) => self.open_file(&index).map(Found::File),
                // A link that leads out is an error.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_link(&full) => {
                    self.list(&full, &decoded).map(Found::Listing)
                }
                Err(error) => Err(error),
            },
        });
        found.unwrap_or_else(Found::from)
    }

    /// Returns the page of a directory. It has only entries that can be downloaded: a link that leads out of the root would
    /// show that its target exists, and how long it is.
    fn list(&self, directory: &Path, name: &str) -> io::Result<String> {
        let row = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let (full, is_directory) = self.resolve(&entry.path()).ok()?;
            let length = full.symlink_metadata().ok()?.len();
            Some((name, (!is_directory).then_some(length)))
        };
        let mut rows: Vec<_> = std::fs::read_dir(directory)?.flatten().filter_map(row).collect();
        rows.sort();
        Ok(page(rows, name))
    }

    /// Returns `path` without links, and whether it is a directory. Only directories and regular files are
    /// opened: merely to open a FIFO may wake its writer, and to open a device may move it.
    fn resolve(&self, path: &Path) -> io::Result<(PathBuf, bool)> {
        let full = path.canonicalize()?;
        if !full.starts_with(&self.path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let metadata = full.symlink_metadata()?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok((full, metadata.is_dir()))
    }

    /// Opens a path without links, as [`Root::resolve`] returns it; a file that was replaced since is
    /// rejected.
    fn open_file(&self, path: &Path) -> io::Result<Opened> {
        let relative = path.strip_prefix(&self.path).map_err(io::Error::other)?;
        // A FIFO or a device must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = match rustix::fs::openat2(&self.directory, relative, flags, Mode::empty(), resolve) {
            // Linux before 5.6, and containers that do not permit the call.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(CWD, path, flags, Mode::empty()),
            opened => opened,
        };
        let file = File::from(opened?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Opened {
            file: self.share(file, (metadata.dev(), metadata.ino())),
            name: path.to_owned(),
            len: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    /// Returns the open descriptor of this file, if there is one.
    fn share(&self, file: File, id: (u64, u64)) -> Arc<File> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = open.get(&id).and_then(Weak::upgrade) {
            return shared;
        }
        if open.len() == open.capacity() {
            #[expect(clippy::disallowed_methods, reason = "each is judged for itself, in any order")]
            open.retain(|_, file| file.strong_count() > 0);
        }
        let file = Arc::new(file);
        open.insert(id, Arc::downgrade(&file));
        file
    }
}

/// True if the directory has an `index.html` that is a link.
fn is_link(directory: &Path) -> bool {
    directory.join("index.html").is_symlink()
}

fn page(rows: Vec<(String, Option<u64>)>, name: &str) -> String {
    let title = escape(name);
    let mut html = format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    for (name, len) in rows {
        let slash = if len.is_none() { "/" } else { "" };
        let link = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
        let len = len.map_or(String::new(), |len| format!(" ({})", anabranch_units::Bytes(len)));
        html.push_str(&format!("<li><a href=\"./{link}{slash}\">{}{slash}</a>{len}</li>\n", escape(&name)));
    }
    html.push_str("</ul>\n");
    html
}

/// Returns `text` for HTML, which a terminal may show, too.
fn escape(text: &str) -> String {
    let text = crate::visible::line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_inside_the_root_are_opened_and_nothing_blocks() {
        let outside = tempfile::tempdir().unwrap();
        let path = outside.path();
        let www = path.join("www");
        std::fs::create_dir_all(www.join("dir")).unwrap();
        std::fs::create_dir_all(www.join("leads-out")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        std::fs::write(www.join("file"), "text").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, www.join(name)).unwrap();
        link("file", "link");
        link("../secret", "out");
        link("/dev/zero", "zero");
        link("../../secret", "leads-out/index.html");
        rustix::fs::mknodat(CWD, www.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(www.join("socket")).unwrap();
        let root = Root::open(&www).unwrap();
        let found = |path: &str| match root.find(path) {
            Found::File(opened) => format!("file {}", opened.len),
            Found::Listing(_) => "list".to_owned(),
            Found::Directory => "directory".to_owned(),
            Found::Nothing => "nothing".to_owned(),
            Found::Forbidden => "forbidden".to_owned(),
            Found::Busy => "busy".to_owned(),
        };
        for path in ["/file", "/link", "//file", "/%66ile", "/./file", "/dir/../file"] {
            let expected = if path.contains("..") { "nothing" } else { "file 4" };
            assert_eq!(found(path), expected, "{path}");
        }
        assert_eq!(
            (found("/dir"), found("/dir/"), found("/")),
            ("directory".into(), "list".into(), "list".into())
        );
        let nothing = [
            "/none",
            "/out",
            "/zero",
            "/fifo",
            "/socket",
            "/leads-out/",
            "/file/",
            "/file/x",
            "/..",
            "/../secret",
            "/%2e%2e/secret",
            "/file%00",
            "/%ff",
        ];
        for path in nothing {
            assert_eq!(found(path), "nothing", "{path}");
        }
        // A replacement between the two steps is rejected as well.
        for other in ["fifo", "zero", "out", "dir"] {
            assert!(root.open_file(&root.path().join(other)).is_err(), "{other}");
        }
        let Found::Listing(html) = root.find("/") else { panic!("no listing") };
        assert!(html.contains("file") && !html.contains("fifo") && !html.contains("zero"), "{html}");
        // Everything that is listed can be downloaded.
        let listed: Vec<&str> =
            html.split("href=\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(listed, ["dir/", "file", "leads%2Dout/", "link"]);
        for name in listed {
            assert_ne!(found(&format!("/{}", name.trim_end_matches('/'))), "nothing", "{name}");
        }
    }

    #[test]
    fn a_file_is_open_once_however_many_have_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        let root = Root::open(directory.path()).unwrap();
        let open = || match root.find("/file") {
            Found::File(opened) => opened.file,
            _ => panic!("there is a file"),
        };
        let (first, second) = (open(), open());
        assert!(Arc::ptr_eq(&first, &second));
        // Another file with the same name.
        std::fs::remove_file(directory.path().join("file")).unwrap();
        std::fs::write(directory.path().join("file"), "other").unwrap();
        assert!(!Arc::ptr_eq(&first, &open()));
        drop((first, second));
        #[expect(clippy::disallowed_methods, reason = "true of all, in any order")]
        let all_closed = root.open.lock().unwrap().values().all(|file| file.strong_count() == 0);
        assert!(all_closed);
    }
}

//! Debug information that is not installed, from the servers that `DEBUGINFOD_URLS` names.
//! Nothing is fetched unless that is set.
//!
//! curl fetches it: network and TLS stay out of this program. It is done before anything is
//! observed and before signals are held. So no thread stands meanwhile, Ctrl-C ends it, and
//! what is named first has the same name as what is named last. What was fetched is parsed by
//! the namer alone, which also checks that it belongs to the program.

use crate::screen;
use log::{debug, info};
use redhanded_image::{DebugSearch, Image};
use redhanded_process::Program;
use redhanded_provision::companions;
use redhanded_sys::{effective_user, make_own_folder, mappings, open_regular, user_cache};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// The variable that names the servers, as other tools know it.
const VARIABLE: &str = "DEBUGINFOD_URLS";
/// No debug information is larger.
const LARGEST: u64 = 4 << 30;
/// What a server did not have is asked for again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(3600);
/// What nobody has used for this long is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// curl's exit status when a server answered that it cannot.
const REFUSED: i32 = 22;

/// The folder with what was fetched, if servers are asked at all.
pub fn root() -> Option<PathBuf> {
    let asked = std::env::var_os(VARIABLE).is_some_and(|urls| !urls.is_empty());
    asked.then(|| user_cache("debuginfod")).flatten()
}

/// Fetches what a program and the libraries it is linked with lack. That there is no such
/// program is told by who starts it.
pub fn for_program(arguments: &[OsString], quiet: bool) {
    if root().is_some()
        && let Ok(program) = Program::find(arguments)
        && !program.has_rights_of_its_own()
    {
        let mut files = companions(&program.path).unwrap_or_default();
        files.push(program.path);
        fetch(files, quiet);
    }
}

/// Fetches what the files of a running process lack.
pub fn for_process(pid: u32, quiet: bool) {
    if root().is_none() {
        return;
    }
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let mapped = mappings(pid.cast_signed()).into_iter();
    let files: BTreeSet<PathBuf> = mapped
        .filter(|mapping| mapping.executable)
        .filter_map(|mapping| mapping.file(pid.cast_signed(), &root))
        .collect();
    fetch(files, quiet);
}

/// Fetches what these files lack. Whatever goes wrong, the run goes on without it.
pub fn fetch(files: impl IntoIterator<Item = PathBuf>, quiet: bool) {
    let Some(folder) = root() else {
        return;
    };
    let folder = match prepare(&folder) {
        Ok(folder) => folder,
        Err(error) => {
            let folder = folder.display();
            screen::say(&format!(
                "redhanded: debug information is not fetched: cannot use {folder}: {error}"
            ));
            return;
        }
    };
    let urls = std::env::var(VARIABLE).unwrap_or_default();
    let mut servers = Servers {
        urls: usable(&urls),
        folder,
        quiet,
    };
    debug!("servers for debug information: {:?}", servers.urls);
    for path in files {
        if let Some(id) = lacking(&path) {
            servers.provide(&id, &path);
        }
    }
}

/// The servers that can be asked. Other words in the list are meant for other tools.
fn usable(urls: &str) -> Vec<String> {
    let words = urls.split_ascii_whitespace();
    let known = words.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
    known
        .map(|url| url.trim_end_matches('/').to_owned())
        .collect()
}

/// The build id of a file that has no debug information and none installed for it.
fn lacking(path: &Path) -> Option<String> {
    let image = Image::open(path).ok()?;
    if image.section_address(".debug_info").is_some() {
        return None;
    }
    let id = hex(image.build_id()?);
    let installed = DebugSearch::default().roots;
    let mut installed = installed.iter().map(|root| root.join(place(&id)));
    (id.len() > 2 && !installed.any(|path| path.exists())).then_some(id)
}

/// Where the debug information of a build id is, below its root.
fn place(id: &str) -> String {
    format!(".build-id/{}/{}.debug", &id[..2], &id[2..])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the folder, if there is none, for its user alone, and removes what is old. Gives its
/// path without links.
fn prepare(folder: &Path) -> io::Result<PathBuf> {
    let folder =
        make_own_folder(folder, 0o700)?.map_err(|why| io::Error::other(why.to_string()))?;
    let ids = folder.join(".build-id");
    DirBuilder::new().recursive(true).mode(0o700).create(&ids)?;
    let about = folder.symlink_metadata()?;
    if about.uid() != effective_user() || about.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is not yours alone",
        ));
    }
    for file in fs::read_dir(ids)?
        .flatten()
        .filter_map(|id| fs::read_dir(id.path()).ok())
    {
        let old = file.flatten().map(|file| file.path());
        for path in old.filter(|path| age(path).is_some_and(|age| age > UNUSED)) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(folder)
}

/// How long ago a file was written or used.
fn age(path: &Path) -> Option<Duration> {
    let written = path.symlink_metadata().ok()?.modified().ok()?;
    SystemTime::now().duration_since(written).ok()
}

struct Servers {
    urls: Vec<String>,
    folder: PathBuf,
    quiet: bool,
}

impl Servers {
    /// Has the debug information of `path` in the folder, if a server has it, and what that
    /// shares with others (made by dwz).
    fn provide(&mut self, id: &str, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(debug) = self.get(id, &name) else {
            return;
        };
        let shared = Image::open(&debug).ok();
        let shared = shared.and_then(|image| shared_id(&image.section(".gnu_debugaltlink")?));
        if let Some(shared) = shared {
            let installed = DebugSearch::default().roots;
            if !installed
                .iter()
                .any(|root| root.join(place(&shared)).exists())
            {
                self.get(&shared, &name);
            }
        }
    }

    /// The file with the debug information of a build id.
    fn get(&mut self, id: &str, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(place(id));
        let missing = path.with_extension("missing");
        if let Ok(kept) = open_regular(&path) {
            // Used today.
            let _ = kept.set_modified(SystemTime::now());
            return Some(path);
        }
        if age(&missing).is_some_and(|age| age < ASK_AGAIN) {
            debug!("no server had the debug information of {name} a while ago");
            return None;
        }
        let folder = path.parent()?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .ok()?;
        if !self.quiet && !self.urls.is_empty() {
            screen::say(&format!(
                "redhanded: asking for the debug information of {name}"
            ));
        }
        let mut unreachable = Vec::new();
        let mut found = false;
        for url in &self.urls {
            let from = format!("{url}/buildid/{id}/debuginfo");
            match download(&from, &path) {
                Ok(true) => {
                    info!("debug information of {name} from {from}");
                    found = true;
                    break;
                }
                Ok(false) => debug!("{from}: not there"),
                Err(why) => {
                    screen::say(&format!(
                        "redhanded: cannot fetch debug information from {url}: {why}"
                    ));
                    unreachable.push(url.clone());
                }
            }
        }
        if !found && unreachable.is_empty() {
            #[expect(
                clippy::disallowed_methods,
                reason = "the cache folder is nobody else's to change"
            )]
            let _ = File::create(&missing);
        }
        // It would fail for the next file, too, and take as long.
        self.urls.retain(|url| !unreachable.contains(url));
        found.then_some(path)
    }
}

/// The build id in a section that names a file with shared debug information.
fn shared_id(section: &[u8]) -> Option<String> {
    let end = section.iter().position(|byte| *byte == 0)?;
    let id = section.get(end + 1..).filter(|id| id.len() > 1)?;
    (id.len() <= 64).then(|| hex(id))
}

/// Fetches a file, which is there whole or not at all. False if the server does not have it.
fn download(url: &str, to: &Path) -> Result<bool, String> {
    let part = to.with_extension(format!("part-{}", std::process::id()));
    let fetched = fetch_into(url, &part);
    let whole = matches!(fetched, Ok(true)) && fs::rename(&part, to).is_ok();
    if !whole {
        let _ = fs::remove_file(&part);
    }
    fetched.map(|_| whole)
}

fn fetch_into(url: &str, part: &Path) -> Result<bool, String> {
    let mut command = Command::new("curl");
    command
        // First: no settings of the user's, who may have others in mind.
        .args(["--disable", "--silent", "--show-error", "--fail"])
        .args(["--location", "--max-redirs", "3"])
        .args(["--proto", "=http,https", "--proto-redir", "=http,https"])
        // Gives up on a server that is not there, and on one that stalls.
        .args([
            "--connect-timeout",
            "10",
            "--speed-time",
            "20",
            "--speed-limit",
            "1000",
        ])
        .args([
            "--max-time",
            "900",
            "--user-agent",
            "redhanded",
            "--url",
            url,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut curl = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "curl is not installed".to_owned(),
        _ => format!("curl: {error}"),
    })?;
    let copied = (|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the cache folder is nobody else's to change"
        )]
        let mut file = File::create(part)?;
        let body = curl.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        io::copy(&mut body.take(LARGEST + 1), &mut file)
    })();
    if !matches!(copied, Ok(bytes) if bytes <= LARGEST) {
        let _ = curl.kill();
    }
    let mut said = String::new();
    if let Some(stderr) = &mut curl.stderr {
        let _ = stderr.take(4096).read_to_string(&mut said);
    }
    let status = curl.wait().map_err(|error| error.to_string())?;
    match (copied, status.code()) {
        (Err(error), _) => Err(error.to_string()),
        (Ok(bytes), _) if bytes > LARGEST => Err("it sends more than 4 GB".to_owned()),
        (Ok(_), Some(0)) => Ok(true),
        (Ok(_), Some(REFUSED)) => Ok(false),
        _ => {
            let last = said.lines().next_back().unwrap_or("curl failed");
            Err(last.trim_start_matches("curl: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_on_the_network_are_asked() {
        let urls = "https://one.example/ ima:enforcing file:///srv http://two.example/x";
        assert_eq!(
            usable(urls),
            ["https://one.example", "http://two.example/x"]
        );
    }

    #[test]
    fn a_build_id_has_one_place() {
        assert_eq!(place("abcdef"), ".build-id/ab/cdef.debug");
        assert_eq!(
            shared_id(b"../dwz/x.debug\0\x01\xfe").as_deref(),
            Some("01fe")
        );
        assert_eq!(shared_id(b"no end"), None);
        assert_eq!(shared_id(b"x\0"), None);
    }
}

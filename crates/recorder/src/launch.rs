//! Starts a program under DynamoRIO.

use crate::engine::Engine;
use redhanded_process::Program;
use redhanded_recording::wire::OPTION_VALUES;
use redhanded_sys::{self as sys, Launch, Parent, SignalSet};
use redhanded_target::TargetError;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What DynamoRIO is told. Blocks are kept short, because what is added to them makes them long.
const OPTIONS: &str = "-code_api -stack_size 128K -max_bb_instrs 64 -no_follow_systemwide";

/// Variables that DynamoRIO reads.
const VARIABLES: [&str; 6] = [
    "DYNAMORIO_OPTIONS",
    "DYNAMORIO_EXE_PATH",
    "DYNAMORIO_RUNUNDER",
    "DYNAMORIO_AUTOINJECT",
    "DYNAMORIO_LOGDIR",
    "DYNAMORIO_HOME",
];

/// Forks the process that becomes the program. `folder` is private and has the streams.
pub fn launch(
    program: &Program,
    engine: &Engine,
    folder: &Path,
    values: bool,
    mask: &SignalSet,
) -> Result<Launch, TargetError> {
    let system = |action: String| move |source: io::Error| TargetError::System { action, source };
    let (path, arguments) = executable(program)?;
    let library = absolute(&engine.library)?;
    // Options are separated by spaces and semicolons, which the client's own path may have.
    let client = folder.join("client.so");
    symlink(absolute(&engine.client)?, &client)
        .map_err(system(format!("cannot make {}", client.display())))?;
    let values = if values { OPTION_VALUES } else { "" };
    let options = format!(
        "{OPTIONS} -client_lib '{};0;{} {values}'",
        client.display(),
        folder.display()
    );
    let values = [
        OsString::from(options),
        absolute(&path)?.into_os_string(),
        "1".into(),
        library.clone().into_os_string(),
        folder.into(),
        folder.into(),
    ];
    let ours = VARIABLES.iter().zip(values);
    let theirs = std::env::vars_os().filter(|(name, _)| VARIABLES.iter().all(|v| name != v));
    let environment: Result<Vec<CString>, _> = theirs
        .chain(ours.map(|(name, value)| (name.into(), value)))
        .map(|(name, value)| c_string([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect();
    let arguments: Result<Vec<CString>, _> = arguments
        .iter()
        .map(|argument| c_string(argument.as_bytes()))
        .collect();
    let library = c_string(library.as_os_str().as_bytes())?;
    sys::launch_in(
        &library,
        &arguments?,
        Some(&environment?),
        mask,
        Parent::Caller,
    )
    .map_err(system("cannot start a process".to_owned()))
}

/// What is really executed, and with which arguments: for a script its interpreter.
fn executable(program: &Program) -> Result<(PathBuf, Vec<OsString>), TargetError> {
    if program.interpreter.is_none() {
        return Ok((program.path.clone(), program.arguments.clone()));
    }
    let refused = |why: &str| TargetError::NotRunnable {
        program: program.path.display().to_string(),
        why: why.to_owned(),
    };
    let (interpreter, argument) =
        first_line(&program.path).ok_or_else(|| refused("its first line names no interpreter"))?;
    if first_line(Path::new(&interpreter)).is_some() {
        return Err(refused(
            "its interpreter is a script too; record that one's interpreter instead",
        ));
    }
    let mut arguments = vec![interpreter.clone()];
    arguments.extend(argument);
    arguments.push(program.path.clone().into_os_string());
    arguments.extend(program.arguments.iter().skip(1).cloned());
    Ok((interpreter.into(), arguments))
}

/// The interpreter of a script, and the argument that its first line has for it.
fn first_line(path: &Path) -> Option<(OsString, Option<OsString>)> {
    /// The kernel looks at no more of a file.
    const LONGEST: u64 = 256;
    let mut text = Vec::new();
    let file = sys::open_regular(path).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let line = text.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let blank = |byte: &u8| b" \t".contains(byte);
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_ascii();
    let argument = (!rest.is_empty()).then(|| OsStr::from_bytes(rest).to_owned());
    (!name.is_empty()).then(|| (OsStr::from_bytes(name).to_owned(), argument))
}

fn absolute(path: &Path) -> Result<PathBuf, TargetError> {
    std::path::absolute(path).map_err(|source| TargetError::System {
        action: format!("cannot find {}", path.display()),
        source,
    })
}

fn c_string(bytes: impl Into<Vec<u8>>) -> Result<CString, TargetError> {
    CString::new(bytes).map_err(|error| TargetError::NotRunnable {
        program: OsString::from_vec(error.into_vec())
            .to_string_lossy()
            .into(),
        why: "an argument contains a zero byte".to_owned(),
    })
}

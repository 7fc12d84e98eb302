//! Which races are meant, in words of the source.

use globset::{GlobBuilder, GlobMatcher};
use redhanded_model::{AccessReport, Class, Frame, Race};

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It is no glob.
    #[error("{0:?} is no glob")]
    Glob(String),
    /// There is no such class.
    #[error("there is no class {0:?}: it is race, possibly-atomic or special")]
    Class(String),
    /// It would match every race.
    #[error("it names nothing: give a function, file, field, class or frame")]
    Empty,
}

/// Races by what the source calls them. All that is given must match.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    function: Option<GlobMatcher>,
    file: Option<GlobMatcher>,
    field: Option<GlobMatcher>,
    frame: Option<GlobMatcher>,
    class: Option<Class>,
    both: bool,
}

fn glob(text: &str) -> Result<GlobMatcher, PatternError> {
    let built = GlobBuilder::new(text).build();
    let built = built.map_err(|_| PatternError::Glob(text.to_owned()))?;
    Ok(built.compile_matcher())
}

/// A path matches as it is, or from any of its folders on: debug information names files as
/// they were when they were compiled.
fn path_glob(text: &str) -> Result<GlobMatcher, PatternError> {
    if text.starts_with(['/', '*']) {
        return glob(text);
    }
    glob(&format!("{{{text},**/{text}}}"))
}

impl Pattern {
    /// With a function that the sides are in, or that called the library they are in.
    ///
    /// # Errors
    /// When it is no glob.
    pub fn function(mut self, text: &str) -> Result<Self, PatternError> {
        self.function = Some(glob(text)?);
        Ok(self)
    }

    /// With the source file of that function.
    ///
    /// # Errors
    /// When it is no glob.
    pub fn file(mut self, text: &str) -> Result<Self, PatternError> {
        self.file = Some(path_glob(text)?);
        Ok(self)
    }

    /// With what is raced on: `device.flags`, `device.*`; behind a pointer the type and the
    /// member, `struct item.flags` or `item.flags`. Indices and their brackets are left out.
    ///
    /// # Errors
    /// When it is no glob.
    pub fn field(mut self, text: &str) -> Result<Self, PatternError> {
        self.field = Some(glob(text)?);
        Ok(self)
    }

    /// With a function, file or module anywhere on the stack.
    ///
    /// # Errors
    /// When it is no glob.
    pub fn frame(mut self, text: &str) -> Result<Self, PatternError> {
        self.frame = Some(glob(text)?);
        Ok(self)
    }

    /// With the class.
    ///
    /// # Errors
    /// When there is no such class.
    pub fn class(mut self, text: &str) -> Result<Self, PatternError> {
        self.class = Some(match text {
            "race" => Class::Race,
            "possibly-atomic" => Class::PossiblyAtomic,
            "special" => Class::Special,
            _ => return Err(PatternError::Class(text.to_owned())),
        });
        Ok(self)
    }

    /// Functions, files and frames must match on both sides, and not on either.
    #[must_use]
    pub const fn both(mut self, both: bool) -> Self {
        self.both = both;
        self
    }

    /// The pattern, if it names anything.
    ///
    /// # Errors
    /// When it names nothing.
    pub fn checked(self) -> Result<Self, PatternError> {
        let sides = [&self.function, &self.file, &self.field, &self.frame];
        if self.class.is_none() && sides.iter().all(|glob| glob.is_none()) {
            return Err(PatternError::Empty);
        }
        Ok(self)
    }

    /// Whether a race is meant.
    #[must_use]
    pub fn matches(&self, race: &Race) -> bool {
        let class = self.class.is_none_or(|class| class == race.class);
        let field = self
            .field
            .as_ref()
            .is_none_or(|glob| touched(race).iter().any(|name| glob.is_match(name)));
        class && field && self.matches_sides(race)
    }

    fn matches_sides(&self, race: &Race) -> bool {
        if self.function.is_none() && self.file.is_none() && self.frame.is_none() {
            return true;
        }
        let mut sides = race.accesses.iter().map(|side| self.matches_side(side));
        if self.both {
            // Nothing is known of the side that is missing.
            race.accesses.len() > 1 && sides.all(|matches| matches)
        } else {
            sides.any(|matches| matches)
        }
    }

    fn matches_side(&self, side: &AccessReport) -> bool {
        let own = side.own().map(|(_, frame)| frame);
        let functions = [
            side.function.as_ref(),
            own.and_then(|f| f.function.as_ref()),
        ];
        let files = [side.file.as_ref(), own.and_then(|f| f.file.as_ref())];
        let any = |glob: &Option<GlobMatcher>, names: [Option<&String>; 2]| {
            let glob = glob.as_ref();
            glob.is_none_or(|glob| names.into_iter().flatten().any(|name| glob.is_match(name)))
        };
        any(&self.function, functions)
            && any(&self.file, files)
            && self.frame.as_ref().is_none_or(|glob| {
                let names = |frame: &Frame| {
                    let names = [&frame.function, &frame.file, &frame.module];
                    names.into_iter().flatten().any(|name| glob.is_match(name))
                };
                side.stack.iter().any(names)
            })
    }
}

/// What is raced on, without indices, by all its names: a variable with its field, or what is
/// behind pointers as each side calls it. A name that is doubtful, and names that contradict
/// each other, are none.
fn touched(race: &Race) -> Vec<String> {
    let what = &race.what;
    if let Some(name) = &what.name {
        let fields = [what.field.as_deref(), what.whole_field()];
        let fields = fields.map(Option::unwrap_or_default);
        return fields
            .map(|field| format!("{name}{}", without_brackets(field)))
            .into();
    }
    if what.sides_differ {
        return Vec::new();
    }
    let sides = race.accesses.iter().map(|side| side.pointee.as_ref());
    let pointees = sides.chain([what.pointee.as_ref()]).flatten();
    let certain = pointees.filter(|pointee| !pointee.doubtful);
    let mut names = Vec::new();
    for pointee in certain {
        let path = without_brackets(&pointee.path);
        names.push(format!("{}{path}", pointee.type_name));
        names.extend(pointee.member.clone());
    }
    // C's keywords are a part of the name that reports print, but need not be written.
    let plain: Vec<String> = names
        .iter()
        .filter_map(|name| without_keyword(name))
        .collect();
    names.extend(plain);
    names
}

fn without_keyword(name: &str) -> Option<String> {
    let keywords = ["struct ", "union ", "class ", "enum "];
    let plain = keywords
        .iter()
        .find_map(|keyword| name.strip_prefix(keyword));
    plain.map(str::to_owned)
}

/// A path without its indices and their brackets.
pub fn without_brackets(path: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for character in path.chars() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            _ if inside => {}
            plainly => plain.push(plainly),
        }
    }
    plain
}

//! A writer of BTF sections.

/// A section being made; types are numbered as they are added.
pub struct Encoder {
    types: Vec<u8>,
    strings: Vec<u8>,
    next: u32,
    first_string: u32,
}

/// A member: its name, type, first bit, and bits if it is a bit-field.
pub type Member<'n> = (&'n str, u32, u32, u32);

impl Encoder {
    pub fn new() -> Self {
        Self {
            types: Vec::new(),
            strings: vec![0],
            next: 1,
            first_string: 0,
        }
    }

    /// One that goes on where `base` ends.
    pub fn split(base: &Self) -> Self {
        Self {
            types: Vec::new(),
            strings: Vec::new(),
            next: base.next,
            first_string: base.first_string + base.strings.len() as u32,
        }
    }

    pub fn section(&self) -> Vec<u8> {
        let mut section = vec![0x9f, 0xeb, 1, 0];
        let types = self.types.len() as u32;
        for word in [24, 0, types, types, self.strings.len() as u32] {
            section.extend(u32::to_le_bytes(word));
        }
        section.extend(&self.types);
        section.extend(&self.strings);
        section
    }

    /// The number that the next type gets.
    pub const fn next(&self) -> u32 {
        self.next
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn add(&mut self, name: &str, info: u32, value: u32, rest: &[u32]) -> u32 {
        let name = self.string(name);
        for word in [name, info, value].iter().chain(rest) {
            self.types.extend(word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }

    pub fn int(&mut self, name: &str, size: u32) -> u32 {
        self.add(name, 1 << 24, size, &[size * 8])
    }

    pub fn pointer(&mut self, to: u32) -> u32 {
        self.add("", 2 << 24, to, &[])
    }

    pub fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", 3 << 24, 0, &[of, 0, count])
    }

    /// A structure, or with `union` one of those.
    pub fn aggregate(&mut self, name: &str, union: bool, size: u32, members: &[Member]) -> u32 {
        let kind: u32 = if union { 5 } else { 4 };
        let flagged = members.iter().any(|(.., bits)| *bits > 0);
        let mut rest = Vec::new();
        for (name, of, start, bits) in members {
            let name = self.string(name);
            rest.extend([name, *of, start | bits << 24]);
        }
        let info = kind << 24 | members.len() as u32 | u32::from(flagged) << 31;
        self.add(name, info, size, &rest)
    }

    pub fn typedef(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, 8 << 24, of, &[])
    }

    pub fn volatile(&mut self, of: u32) -> u32 {
        self.add("", 9 << 24, of, &[])
    }

    pub fn constant(&mut self, of: u32) -> u32 {
        self.add("", 10 << 24, of, &[])
    }

    pub fn function(&mut self, name: &str, result: u32, parameters: &[(&str, u32)]) -> u32 {
        let mut rest = Vec::new();
        for (name, of) in parameters {
            let name = self.string(name);
            rest.extend([name, *of]);
        }
        let prototype = self.add("", 13 << 24 | parameters.len() as u32, result, &rest);
        self.add(name, 12 << 24, prototype, &[])
    }

    pub fn variable(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, 14 << 24, of, &[1])
    }

    /// One of each kind that nothing else here adds.
    pub fn others(&mut self, of: u32) {
        self.add("colour", 6 << 24 | 1, 4, &[0, 7]);
        self.add("elsewhere", 7 << 24, 0, &[]);
        self.add("", 11 << 24, of, &[]);
        let variable = self.variable("counter", of);
        self.add(".data..percpu", 15 << 24 | 1, 64, &[variable, 0, 8]);
        self.add("double", 16 << 24, 8, &[]);
        self.add("tag", 17 << 24, variable, &[u32::MAX]);
        self.add("rcu", 18 << 24, of, &[]);
        self.add("wide", 19 << 24 | 1, 8, &[0, 1, 2]);
    }
}

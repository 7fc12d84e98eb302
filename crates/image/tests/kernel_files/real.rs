//! Real kernels: what is read from a vmlinuz alone, held against the debug
//! vmlinux of the same build.

use gimli::constants as dw;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use redhanded_image::Image;
use redhanded_image::kernel_file::{Btf, Field, Stage, prepare, symbols, unpack};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The kernel as boot loaders take it, and the same with debug information.
struct Kernel {
    vmlinuz: PathBuf,
    vmlinux: PathBuf,
}

fn kernels() -> impl Iterator<Item = Kernel> {
    super::installed::kernels()
        .into_iter()
        .map(|kernel| Kernel {
            vmlinuz: kernel.kernel,
            vmlinux: kernel.vmlinux.unwrap(),
        })
}

#[test]
fn kallsyms_agree_with_the_symbol_table() {
    for kernel in kernels() {
        let packed = fs::read(&kernel.vmlinuz).unwrap();
        let found = symbols(&unpack(&packed).unwrap()).unwrap();
        let found: BTreeSet<(u64, &str)> =
            found.iter().map(|s| (s.address, s.name.as_str())).collect();

        let vmlinux = Image::open(&kernel.vmlinux).unwrap();
        let file = object::File::parse(vmlinux.data()).unwrap();
        let (mut all, mut functions) = (BTreeSet::new(), BTreeSet::new());
        for symbol in file.symbols() {
            let pair = (symbol.address(), symbol.name().unwrap());
            all.insert(pair);
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                functions.insert(pair);
            }
        }
        let missing: Vec<_> = functions.difference(&found).take(5).collect();
        assert!(
            missing.is_empty(),
            "{}: no {missing:x?}",
            kernel.vmlinuz.display()
        );
        let invented: Vec<_> = found.difference(&all).take(5).collect();
        assert!(
            invented.is_empty(),
            "{}: {invented:x?}",
            kernel.vmlinuz.display()
        );
        assert!(functions.len() > 10_000);
    }
}

#[test]
fn the_prepared_file_is_as_good_as_the_debug_one_for_sites() {
    for kernel in kernels() {
        let cache = tempfile::tempdir().unwrap();
        let mut stages = Vec::new();
        let path = prepare(&kernel.vmlinuz, cache.path(), &mut |stage| {
            stages.push(stage)
        })
        .unwrap();
        assert_eq!(
            stages,
            [Stage::Unpacking, Stage::FindingSymbols, Stage::Writing]
        );
        let again = prepare(&kernel.vmlinuz, cache.path(), &mut |stage| {
            panic!("{stage:?} though it was done before")
        });
        assert_eq!(again.unwrap(), path);

        let (own, debug) = (
            Image::open(&path).unwrap(),
            Image::open(&kernel.vmlinux).unwrap(),
        );
        assert_eq!(own.build_id(), debug.build_id());
        let folder = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let hex: String = own
            .build_id()
            .unwrap()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(folder, hex);

        // A damaged file in the cache is made anew.
        let len = fs::metadata(&path).unwrap().len();
        fs::write(&path, b"").unwrap();
        let mended = prepare(&kernel.vmlinuz, cache.path(), &mut |_| ()).unwrap();
        assert_eq!(fs::metadata(mended).unwrap().len(), len);

        let own = Image::open(&path).unwrap();
        let named = |image: &Image| -> BTreeMap<u64, String> {
            let functions = image.functions().as_slice().iter();
            functions
                .filter_map(|f| Some((f.start.0, f.name.as_deref()?.to_owned())))
                .collect()
        };
        let (ours, theirs) = (named(&own), named(&debug));
        let same = theirs
            .iter()
            .filter(|(start, name)| ours.get(start) == Some(name))
            .count();
        assert!(
            same * 100 >= theirs.len() * 98,
            "{same} of {} names",
            theirs.len()
        );

        let sites = |image: &Image| -> BTreeSet<u64> {
            image.sites().sites.iter().map(|site| site.svma.0).collect()
        };
        let (ours, theirs) = (sites(&own), sites(&debug));
        let common = ours.intersection(&theirs).count();
        println!(
            "sites: {} here, {} there, {common} in both",
            ours.len(),
            theirs.len()
        );
        assert!(
            common * 100 >= theirs.len() * 96,
            "{common} of {}",
            theirs.len()
        );
        assert!(
            common * 100 >= ours.len() * 96,
            "{common} of our {}",
            ours.len()
        );
    }
}

/// What the detector will ask for, and more: all their fields are compared.
const STRUCTURES: [&str; 24] = [
    "task_struct",
    "thread_info",
    "module",
    "mm_struct",
    "vm_area_struct",
    "file",
    "inode",
    "dentry",
    "super_block",
    "page",
    "list_head",
    "cred",
    "signal_struct",
    "timer_list",
    "work_struct",
    "pid",
    "path",
    "hrtimer",
    "sk_buff",
    "sock",
    "kobject",
    "device",
    "mutex",
    "rw_semaphore",
];

#[test]
fn types_agree_with_dwarf() {
    for kernel in kernels() {
        let packed = fs::read(&kernel.vmlinuz).unwrap();
        let elf = unpack(&packed).unwrap();
        let file = object::File::parse(&*elf).unwrap();
        let section = file.section_by_name(".BTF").unwrap();
        let btf = Btf::parse(section.data().unwrap(), None).unwrap();

        let vmlinux = Image::open(&kernel.vmlinux).unwrap();
        let mut compared = 0;
        for (structure, size, fields) in dwarf_fields(&vmlinux) {
            assert_eq!(btf.size_of(&structure), Some(size), "{structure}");
            for (name, field) in fields {
                let found = btf.field(&structure, &name);
                let told = found.map(|found| Field {
                    size: if field.size == 0 { 0 } else { found.size },
                    ..found
                });
                assert_eq!(told, Some(field), "{structure}.{name}");
                compared += 1;
                if field.bit_size == 0 && field.size > 0 {
                    let part = btf
                        .path_at(&structure, field.offset_bytes, field.size)
                        .unwrap();
                    // A member that is all of an array or structure goes deeper.
                    let expected = format!(".{name}");
                    assert!(
                        part.in_union || part.path.starts_with(&expected),
                        "{structure}.{name}: {part:?}"
                    );
                }
            }
        }
        assert!(compared > 500, "only {compared} fields");

        // What is told of per-CPU variables without debug information is what it tells.
        for name in ["runqueues", "kernel_cpustat", "tasklet_vec", "cpu_tlbstate"] {
            let symbols = vmlinux.symbols_named(&[name]);
            let svma = symbols.into_iter().next().unwrap().1;
            let told = vmlinux.debug().variable_at(svma).unwrap();
            for offset in (0..told.size).step_by(8) {
                let size = 8.min(told.size - offset);
                let part = btf.part_of_variable(name, offset, size).unwrap();
                let expected = told.part(offset, size);
                if !expected.in_union {
                    assert_eq!(part.path, expected.path, "{name} at {offset}");
                    assert_eq!(part.spans, expected.spans, "{name} at {offset}");
                }
            }
        }
    }
}

type Structure = (String, u64, Vec<(String, Field)>);

/// The named members of the structures, as the debug information has them.
fn dwarf_fields(vmlinux: &Image) -> Vec<Structure> {
    let load = |id: gimli::SectionId| -> Result<_, gimli::Error> {
        Ok(vmlinux.section(id.name()).unwrap_or_default())
    };
    let sections = gimli::DwarfSections::load(load).unwrap();
    let dwarf = sections.borrow(|bytes| gimli::EndianSlice::new(bytes, gimli::LittleEndian));
    let mut wanted: BTreeSet<&str> = STRUCTURES.into();
    let mut found = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next().unwrap()
        && !wanted.is_empty()
    {
        let unit = dwarf.unit(header).unwrap();
        let mut tree = unit.entries_tree(None).unwrap();
        let mut children = tree.root().unwrap().children();
        while let Some(child) = children.next().unwrap() {
            let entry = child.entry();
            let complete = entry
                .attr_value(dw::DW_AT_byte_size)
                .and_then(|size| size.udata_value());
            if entry.tag() != dw::DW_TAG_structure_type {
                continue;
            }
            let name = text(&dwarf, &unit, entry);
            let (Some(size), Some(name)) = (complete, name.as_deref().and_then(|n| wanted.take(n)))
            else {
                continue;
            };
            let mut fields = Vec::new();
            let mut members = child.children();
            while let Some(member) = members.next().unwrap() {
                let entry = member.entry();
                if let Some(name) = text(&dwarf, &unit, entry) {
                    fields.push((name, field(&unit, entry)));
                }
            }
            found.push((name.to_owned(), size, fields));
        }
    }
    assert!(wanted.is_empty(), "no {wanted:?} in the debug information");
    found
}

type Reader<'d> = gimli::EndianSlice<'d, gimli::LittleEndian>;
type Entry<'d> = gimli::DebuggingInformationEntry<Reader<'d>>;

fn text<'d>(
    dwarf: &gimli::Dwarf<Reader<'d>>,
    unit: &gimli::Unit<Reader<'d>>,
    entry: &Entry<'d>,
) -> Option<String> {
    let value = entry.attr_value(dw::DW_AT_name)?;
    let text = dwarf.attr_string(unit, value).ok()?;
    Some(text.to_string_lossy().into_owned())
}

/// Where a member is; a size of 0 where finding it would take more than this.
fn field(unit: &gimli::Unit<Reader<'_>>, member: &Entry<'_>) -> Field {
    let number = |attribute| {
        member
            .attr_value(attribute)
            .and_then(|value| value.udata_value())
    };
    let byte = number(dw::DW_AT_data_member_location).unwrap_or(0);
    if let Some(bits) = number(dw::DW_AT_bit_size) {
        let start = byte * 8 + number(dw::DW_AT_data_bit_offset).unwrap_or(0);
        return Field {
            offset_bytes: start / 8,
            bit_offset: (start % 8) as u32,
            bit_size: bits as u32,
            size: (start % 8 + bits).div_ceil(8),
        };
    }
    let mut size = 0;
    let mut next = member.attr_value(dw::DW_AT_type);
    while let Some(gimli::AttributeValue::UnitRef(offset)) = next {
        let entry = unit.entry(offset).unwrap();
        let told = entry
            .attr_value(dw::DW_AT_byte_size)
            .and_then(|size| size.udata_value());
        if let Some(told) = told {
            size = told;
            break;
        }
        if entry.tag() == dw::DW_TAG_array_type {
            break;
        }
        next = entry.attr_value(dw::DW_AT_type);
    }
    Field {
        offset_bytes: byte,
        bit_offset: 0,
        bit_size: 0,
        size,
    }
}

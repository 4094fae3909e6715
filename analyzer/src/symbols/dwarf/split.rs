//! Split DWARF: the rest of a unit, from a `.dwo` file or a package of them.

use super::{DebugInfo, Reader};
use crate::symbols::file::MappedFile;
use crate::symbols::sections::Loader;
use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, Reader as _};
use std::path::Path;
use std::sync::Arc;

impl<'data> DebugInfo<'data> {
    /// The rest of a unit that was split off into a `.dwo` file or a package of them.
    pub(super) fn split_unit(
        &self,
        load: &SplitDwarfLoad<Reader<'data>>,
    ) -> Option<Arc<Dwarf<Reader<'data>>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let text = |part: &Option<Reader<'data>>| {
            let part = part.as_ref()?.to_string_lossy().ok()?;
            Some(part.into_owned())
        };
        let name = text(&load.path)?;
        let directory = text(&load.comp_dir).unwrap_or_default();
        let file = self.sections.file.path();
        let places = self
            .search
            .split_files(load.dwo_id.0, &directory, &name, file);
        let unit = places.iter().find_map(|path| self.open_split(path, load));
        if unit.is_none() {
            self.looked.borrow_mut().missing.insert(name, places);
        }
        unit
    }

    fn open_split(
        &self,
        path: &Path,
        load: &SplitDwarfLoad<Reader<'data>>,
    ) -> Option<Arc<Dwarf<Reader<'data>>>> {
        let file = self.store.files.alloc(MappedFile::open(path).ok()?);
        let mut loader = Loader::default();
        let mut dwarf = Dwarf::load(|id| {
            let section = loader.load(file, id.dwo_name(), id)?;
            Ok::<_, gimli::Error>(section.kept_in(&self.store.uncompressed, &self.store.limits))
        })
        .ok()?;
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        if unit.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        let mut looked = self.looked.borrow_mut();
        looked.unreadable.extend(loader.unreadable);
        looked.split.insert(load.dwo_id.0, path.to_owned());
        Some(Arc::new(dwarf))
    }
}

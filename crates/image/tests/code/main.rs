//! Functions, linkage stubs, sites and updates of files that gcc builds here and
//! now, in the variants found in the wild. Needs gcc and strip.

mod damaged;
mod fixture;
mod functions;
mod likeness;
mod linkage;
mod real;
mod selection;
mod sites;
mod strings;
mod updates;
mod usage;

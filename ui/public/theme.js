// Before anything is painted: the look that was chosen here, if one was. Else the system's counts.
try {
  for (const name of ["theme", "density"]) {
    const chosen = localStorage.getItem(`perdure.${name}`);
    if (chosen) document.documentElement.dataset[name] = chosen;
  }
} catch {
  // No storage in this browser: nothing was chosen.
}

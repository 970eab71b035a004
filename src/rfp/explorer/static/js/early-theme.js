// Runs before the first paint, so that a dark page does not flash white.
(() => {
  let kept = null;
  try { kept = localStorage.getItem("rfp-theme"); } catch { /* storage may be switched off */ }
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = asked ?? kept ?? (dark ? "dark" : "light");
})();

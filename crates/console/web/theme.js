// Applies the chosen colours before the first paint; a script of its own because modules run later.
"use strict";
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("toolway-theme");
  } catch {
    // Without storage the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

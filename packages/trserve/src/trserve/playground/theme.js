/** Light or dark: as the system says, until the button says otherwise. Runs before the page shows. */

"use strict";

{
  const KEY = "trserve.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  try {
    const chosen = localStorage.getItem(KEY);
    if (chosen !== null) root.dataset.theme = chosen;
  } catch {} // storage is blocked: what is chosen holds until the page is left

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => {
      button.textContent = current() === "dark" ? "Light" : "Dark";
    };
    button.addEventListener("click", () => {
      root.dataset.theme = current() === "dark" ? "light" : "dark";
      tell();
      try {
        localStorage.setItem(KEY, root.dataset.theme);
      } catch {} // see above
    });
    system.addEventListener("change", tell);
    tell();
  });
}

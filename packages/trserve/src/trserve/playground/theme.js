/** Light or dark: as the system says, until the button says otherwise. Runs before the page shows. */

"use strict";

{
  const KEY = "trserve.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  const chosen = localStorage.getItem(KEY);
  if (chosen !== null) root.dataset.theme = chosen;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => {
      button.textContent = current() === "dark" ? "Light" : "Dark";
    };
    button.addEventListener("click", () => {
      root.dataset.theme = current() === "dark" ? "light" : "dark";
      localStorage.setItem(KEY, root.dataset.theme);
      tell();
    });
    system.addEventListener("change", tell);
    tell();
  });
}

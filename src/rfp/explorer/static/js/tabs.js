// Tabs as the keyboard expects them: arrows move, the panel follows.

export function tabs(list, onShow) {
  const buttons = [...list.querySelectorAll('[role="tab"]')];
  function show(chosen) {
    for (const button of buttons) {
      const is = button === chosen;
      button.setAttribute("aria-selected", String(is));
      button.tabIndex = is ? 0 : -1;
      document.getElementById(button.getAttribute("aria-controls")).hidden = !is;
    }
    onShow(chosen.id);
  }
  buttons.forEach((button, i) => {
    button.addEventListener("click", () => show(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = buttons[(i + step + buttons.length) % buttons.length];
      next.focus();
      show(next);
    });
  });
  return (id) => show(document.getElementById(id));
}

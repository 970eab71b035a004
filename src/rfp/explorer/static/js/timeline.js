// The time slider: steps by hand, by keys, or by themselves.

export class Timeline {
  constructor(onStep) {
    this.slider = document.querySelector("#step");
    this.label = document.querySelector("#step-label");
    this.button = document.querySelector("#play");
    this.speed = document.querySelector("#speed");
    this.onStep = onStep;
    this.steps = 0;
    this.slider.addEventListener("input", () => { this.stop(); onStep(Number(this.slider.value)); });
    this.button.addEventListener("click", () => this.toggle());
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input:not([type=range]), select, textarea, dialog, [role=tab], [role=menuitem]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === " " && !event.target.closest("button, summary")) { event.preventDefault(); this.toggle(); }
      if (event.target === this.slider || event.target.tagName === "CANVAS") return;
      if (event.key === "ArrowRight") onStep(Math.min(this.steps, this.step + 1));
      if (event.key === "ArrowLeft") onStep(Math.max(0, this.step - 1));
    });
  }

  show(step, steps) {
    [this.step, this.steps] = [step, steps];
    this.slider.max = steps;
    this.slider.value = step;
    this.slider.disabled = steps === 0;
    this.label.textContent = `p = ${step} of ${steps}`;
    this.slider.setAttribute("aria-valuetext", `step ${step} of ${steps}`);
  }

  get playing() { return this.button.getAttribute("aria-pressed") === "true"; }

  toggle() {
    if (this.playing) { this.stop(); return; }
    if (this.steps === 0) return;
    this.button.setAttribute("aria-pressed", "true");
    this.button.ariaLabel = "Pause";
    if (this.step >= this.steps) this.onStep(0);
    this.#later();
  }

  stop() {
    clearTimeout(this.timer);
    this.button.setAttribute("aria-pressed", "false");
    this.button.ariaLabel = "Play";
  }

  #later() {
    this.timer = setTimeout(async () => {
      if (!this.playing) return;
      await this.onStep(this.step + 1);
      if (this.step >= this.steps) this.stop();
      else if (this.playing) this.#later();
    }, Number(this.speed.value));
  }
}

// Finding a node by its id: the exact one first, then those that begin with the text, then those that hold it.

const MOST = 12;

export class Search {
  constructor(onFound) {
    this.input = document.querySelector("#search");
    this.list = document.querySelector("#search-results");
    this.onFound = onFound;
    this.place = -1;
    this.input.addEventListener("input", () => this.#look());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
      if (event.key === "Enter" && this.found?.length) this.#take(this.found[Math.max(0, this.place)]);
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        this.#mark(this.place + (event.key === "ArrowDown" ? 1 : -1));
      }
    });
    this.input.addEventListener("blur", () => setTimeout(() => this.#close(), 150));
  }

  setGraph(ids, count) {
    [this.ids, this.count] = [ids, count];
    this.input.value = "";
    this.#close();
  }

  find(text) {
    if (!text) return [];
    if (!this.ids) {
      const exact = /^\d+$/.test(text) && Number(text) < this.count ? [Number(text)] : [];
      const longer = [];
      for (let i = 0; i < this.count && longer.length < MOST; i++) if (String(i).startsWith(text) && String(i) !== text) longer.push(i);
      return [...exact, ...longer].slice(0, MOST);
    }
    const wanted = text.toLowerCase();
    const [exact, begins, holds] = [[], [], []];
    for (let i = 0; i < this.ids.length && begins.length < MOST; i++) {
      const id = this.ids[i].toLowerCase();
      if (id === wanted) exact.push(i);
      else if (id.startsWith(wanted)) begins.push(i);
      else if (holds.length < MOST && id.includes(wanted)) holds.push(i);
    }
    return [...exact, ...begins, ...holds].slice(0, MOST);
  }

  #look() {
    const text = this.input.value.trim();
    this.found = this.find(text);
    this.list.replaceChildren(...this.found.map((node, i) => {
      const item = Object.assign(document.createElement("li"), { textContent: this.ids ? this.ids[node] : String(node), id: `found-${i}` });
      item.setAttribute("role", "option");
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); this.#take(node); });
      return item;
    }));
    if (text && !this.found.length) {
      const none = Object.assign(document.createElement("li"), { textContent: `No node “${text}”`, className: "note" });
      this.list.append(none);
    }
    this.list.hidden = !text;
    this.input.setAttribute("aria-expanded", String(Boolean(text)));
    this.#mark(this.found.length ? 0 : -1);
  }

  #mark(place) {
    const items = [...this.list.querySelectorAll("[role=option]")];
    this.place = items.length ? Math.min(items.length - 1, Math.max(0, place)) : -1;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === this.place)));
    this.input.setAttribute("aria-activedescendant", this.place >= 0 ? `found-${this.place}` : "");
  }

  #take(node) {
    this.#close();
    this.onFound(node);
  }

  #close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }
}

"use strict";
// Finds nodes on the page of a report: by id, by cluster, on the map. It reads the block of data of the page only, and
// writes text only as text, so that no name can act as markup. Without it, the page can be read all the same.
(() => {
  const data = JSON.parse(document.getElementById("node-data").textContent);
  const finder = document.getElementById("node-finder");
  const [field, choice, status, answer, more] = ["id", "cluster", "count", "answer", "more"].map((name) =>
    document.getElementById(`node-${name}`));
  const body = finder.querySelector("tbody");
  const map = document.querySelector(".map svg.picture");
  const PAGE = 20; // rows that are added at once
  const REACH = 14; // distance from a point, in pixels, at which it answers
  const lower = data.id.map((id) => id.toLowerCase());
  const row = new Map(data.id.map((id, place) => [id, place]));
  const onMap = new Map((data.map || []).map(([place, x, y]) => [place, [x, y]]));
  let found = [];
  let shown = 0;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const count = (number) => number.toLocaleString("en");
  const amount = (number, noun) => `${number === 0 ? "no" : count(number)} ${noun}${number === 1 ? "" : "s"}`;
  const decimal = (share) => (share === 0 ? "0" : share < 0.005 ? "<0.01" : share.toFixed(2));
  const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`);
  const called = (cluster) => {
    const { name } = data.clusters[cluster];
    return `Cluster ${cluster}${name ? ` · ${name}` : ""}`;
  };
  const chip = (cluster) => {
    if (cluster < 0) return element("span", "–");
    const linked = data.cards.includes(cluster);
    const whole = element(linked ? "a" : "span", undefined, linked ? "chip to-cluster" : "chip");
    if (linked) whole.href = `#cluster-${cluster}`;
    const dot = element("span", undefined, `dot ${data.clusters[cluster].class}`);
    dot.setAttribute("aria-hidden", "true");
    whole.append(dot, element("span", called(cluster)));
    return whole;
  };

  const sentences = (place) => {
    const other = data.other[place];
    const confidence = data.confidence[place];
    const text = [];
    if (other < 0) text.push("There is no other cluster.");
    else if (confidence > 0) {
      text.push(`By the columns of ${data.party} alone, its cluster has the nearest centre, with confidence ` +
        `${decimal(confidence)}. The nearest alternative is cluster ${other}.`);
    } else {
      text.push(`By the columns of ${data.party} alone, cluster ${other} is as near or nearer (confidence 0). The joint ` +
        "clusters depend on the columns of all parties.");
    }
    if (data.edges) {
      const [all, inside] = [data.edges[place], data.inside[place]];
      if (all === 0) text.push("It has no edges to other nodes.");
      else if (all === 1) text.push(`Its only edge ${inside ? "leads" : "does not lead"} to its own cluster.`);
      else if (inside === 0) text.push(`None of its ${count(all)} edges leads to its own cluster.`);
      else text.push(`Of its ${count(all)} edges, ${count(inside)} ${inside === 1 ? "leads" : "lead"} to its own cluster.`);
    }
    for (const [column, value, mean, meanOther] of data.reasons[place]) {
      const name = data.columns[column];
      if (data.present) {
        const [here, there] = [mean, meanOther].map((share) => (share === undefined ? "–" : percent(share)));
        text.push(`It has ${name}, as have ${here} of its cluster` + (meanOther === undefined ? "." : ` and ${there} of cluster ${other}.`));
      } else {
        const kind = data.by_logarithm[column] ? "typical value (mean of the logarithms)" : "mean";
        text.push(`Its ${name} is ${value}; the ${kind} of its cluster is ${mean}` + (meanOther === undefined ? "." : `, that of cluster ${other} ${meanOther}.`));
      }
    }
    return text;
  };

  const choose = (place, focus) => {
    const text = sentences(place);
    const title = element("h3", data.id[place]);
    const close = element("button", "Close", "close");
    close.type = "button";
    close.addEventListener("click", () => {
      answer.hidden = true;
      ring(undefined);
      field.focus();
    });
    const where = element("p");
    where.append(chip(data.cluster[place]));
    answer.replaceChildren(title, where, ...text.map((one) => element("p", one)), close);
    answer.hidden = false;
    ring(place);
    if (focus) {
      answer.scrollIntoView({ block: "nearest" });
      answer.focus({ preventScroll: true });
    }
  };

  const add = () => {
    for (const place of found.slice(shown, shown + PAGE)) {
      const line = element("tr");
      const head = element("th");
      head.scope = "row";
      const button = element("button", data.id[place], "node");
      button.type = "button";
      button.addEventListener("click", () => choose(place, true));
      head.append(button);
      const cells = [chip(data.cluster[place]), chip(data.other[place]), decimal(data.confidence[place])];
      if (data.edges) {
        const all = data.edges[place];
        cells.push(all === 0 ? "no edges" : `${count(data.inside[place])} of ${amount(all, "edge")}`);
      }
      line.append(head, ...cells.map((cell, at) => {
        const made = element("td", undefined, at > 1 ? "num" : "");
        made.append(cell);
        return made;
      }));
      body.append(line);
    }
    shown = Math.min(shown + PAGE, found.length);
    more.hidden = shown >= found.length;
    const which = found.length > shown ? `, ${count(shown)} of them listed` : "";
    const rest = data.id.length < data.of ? ` among the ${count(data.id.length)} on this page` : "";
    const hint = found.length || !rest ? "" : ". The page holds a sample: run kcagc explain";
    status.textContent = `${amount(found.length, "node")} found${rest}${which}${hint}`;
  };

  const search = () => {
    const wanted = field.value.trim().toLowerCase();
    const cluster = choice.value === "" ? -1 : Number(choice.value);
    found = [];
    for (let place = 0; place < lower.length; place += 1) {
      if ((cluster < 0 || data.cluster[place] === cluster) && lower[place].includes(wanted)) found.push(place);
    }
    // The id itself comes first, then ids that begin with the text.
    const rank = (place) => (lower[place] === wanted ? 0 : lower[place].startsWith(wanted) ? 1 : 2);
    if (wanted) found.sort((one, two) => rank(one) - rank(two) || one - two);
    body.replaceChildren();
    shown = 0;
    add();
    if (map) {
      for (const part of map.querySelectorAll("[data-cluster]")) {
        part.classList.toggle("dim", cluster >= 0 && Number(part.dataset.cluster) !== cluster);
      }
    }
  };

  // The map: a point answers to the pointer, and the chosen node has a ring.
  const circle = map && document.createElementNS(map.namespaceURI, "circle");
  if (circle) {
    circle.setAttribute("class", "ring");
    circle.setAttribute("r", "11");
  }
  const ring = (place) => {
    const at = onMap.get(place);
    if (!map) return;
    circle.remove();
    if (!at) return;
    circle.setAttribute("cx", at[0]);
    circle.setAttribute("cy", at[1]);
    map.append(circle);
  };
  const hover = () => {
    const tip = element("div", undefined, "tip");
    tip.hidden = true;
    tip.setAttribute("aria-hidden", "true"); // the table of nodes says the same
    map.parentElement.append(tip);
    const nearest = (event) => {
      const matrix = map.getScreenCTM();
      const cluster = choice.value === "" ? -1 : Number(choice.value);
      let best;
      let least = REACH;
      for (const [place, [x, y]] of onMap) {
        if (cluster >= 0 && data.cluster[place] !== cluster) continue;
        const away = Math.hypot(matrix.a * x + matrix.e - event.clientX, matrix.d * y + matrix.f - event.clientY);
        if (away < least) [best, least] = [place, away];
      }
      return best;
    };
    map.addEventListener("pointermove", (event) => {
      const place = nearest(event);
      map.classList.toggle("pointing", place !== undefined);
      tip.hidden = place === undefined;
      if (tip.hidden) return;
      const inside = data.edges ? `, ${amount(data.edges[place], "edge")}` : "";
      tip.replaceChildren(element("strong", data.id[place]), element("span", called(data.cluster[place])),
        element("span", `confidence ${decimal(data.confidence[place])}${inside}`));
      const frame = map.parentElement.getBoundingClientRect();
      const left = Math.min(event.clientX - frame.left + 14, frame.width - tip.offsetWidth - 4);
      tip.style.left = `${Math.max(left, 4)}px`;
      tip.style.top = `${event.clientY - frame.top + 14}px`;
    });
    map.addEventListener("pointerleave", () => { tip.hidden = true; });
    map.addEventListener("click", (event) => {
      const place = nearest(event);
      if (place !== undefined) choose(place, true);
    });
  };

  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && found.length) choose(found[0], true);
    if (event.key === "Escape" && field.value) {
      field.value = "";
      search();
      event.preventDefault();
    }
  });
  answer.addEventListener("keydown", (event) => {
    if (event.key === "Escape") answer.querySelector(".close").click();
  });
  more.addEventListener("click", () => {
    const before = shown;
    add();
    body.rows[before].querySelector("button").focus();
  });
  for (const link of document.querySelectorAll("a[data-node]")) {
    link.addEventListener("click", (event) => {
      const place = row.get(link.dataset.node);
      if (place === undefined) return;
      event.preventDefault();
      choose(place, true);
    });
  }
  if (map) {
    // A second choice of the cluster, next to the map that it changes.
    const copy = choice.cloneNode(true);
    copy.id = "map-cluster";
    const label = element("label", "Show on the map ");
    label.append(copy);
    const controls = element("div", undefined, "controls");
    controls.append(label);
    map.before(controls);
    const follow = (one, other) => one.addEventListener("change", () => { other.value = one.value; search(); });
    follow(copy, choice);
    follow(choice, copy);
  } else choice.addEventListener("change", search);
  document.getElementById("node-without").remove();
  finder.hidden = false;
  if (map && onMap.size) hover();
  search();
})();
